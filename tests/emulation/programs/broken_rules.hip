// Kernels that must not get away with it.
#include "case_main.h"
#include "detail/shared.h"

namespace {

using namespace hygon_backend::emulation;

template <int first_in_exchange, int end_in_exchange>
__global__ void ExchangeOrBarrier() {
  if (Lane() >= first_in_exchange && Lane() < end_in_exchange) {
    Exchange(1);
  } else {
    __syncthreads();
  }
}

__global__ void TwoTypes() {
  if (Lane() < 63) {
    Exchange(1);
  } else {
    Exchange(1.0F);
  }
}

__global__ void TwoBarriers() {
  if (Wave() == 0) {
    __syncthreads();
  } else {
    __syncthreads();
  }
}

__global__ void OverrunLds(int* out, int index) {
  HYGON_SHARED(int, tile, 16);
  int* first = tile;
  first[index] = 1;
  *out = first[index];
}

template <class T>
__global__ void OverrunLdsOfTemplate(T* out, int index) {
  HYGON_SHARED(T, tile, 16);
  T* first = tile;
  first[index] = 1;
  *out = first[index];
}

__global__ void OverrunDeviceMemory(int* out, int index) { out[index] = 1; }

__global__ void KeepLds(int** kept) {
  HYGON_SHARED(int, tile, 16);
  if (blockIdx.x == 0) {
    *kept = tile;
  } else {
    **kept = 1;
  }
}

// Each frame refers to the one before, so that no compiler can do with a single one.
__device__ __attribute__((noinline)) int Recurse(int depth, const volatile char* caller_frame) {
  volatile char frame[1024];
  frame[0] = static_cast<char>(depth);
  return depth == 0 ? caller_frame[0] : Recurse(depth - 1, frame) + caller_frame[0];
}

// Thread 1, since the stack of thread 0 lies below its own.
__global__ void OverflowStack(int* out, int depth) {
  if (threadIdx.x == 1) {
    const char start = 0;
    *out = Recurse(depth, &start);
  }
}

__global__ void LaunchFromKernel() { hipLaunchKernelGGL(TwoBarriers, dim3(1), dim3(1), 0, nullptr); }

template <class... Parameters, class... Arguments>
void Run(void (*kernel)(Parameters...), dim3 grid, dim3 block, Arguments... arguments) {
  hipLaunchKernelGGL(kernel, grid, block, 0, nullptr, arguments...);
  std::printf("got away\n");
}

void RunOne(void (*kernel)(int*, int), int argument) {
  const DeviceArray<int> out(16);
  Run(kernel, dim3(1), dim3(1), out.get(), argument);
}

}  // namespace

int main(int argc, char** argv) {
  return RunCase(argc, argv,
                 {
                     {"low_lanes_in_exchange", [] { Run(ExchangeOrBarrier<0, 32>, dim3(1), dim3(64)); }},
                     {"high_lanes_in_exchange", [] { Run(ExchangeOrBarrier<32, 64>, dim3(1), dim3(64)); }},
                     {"two_types", [] { Run(TwoTypes, dim3(2, 3), dim3(64)); }},
                     {"two_barriers", [] { Run(TwoBarriers, dim3(1), dim3(128)); }},
                     {"lds_past_the_end", [] { RunOne(OverrunLds, 16); }},
                     {"lds_before_the_start", [] { RunOne(OverrunLds, -1); }},
                     {"lds_of_template", [] { RunOne(OverrunLdsOfTemplate<int>, 16); }},
                     {"device_memory", [] { RunOne(OverrunDeviceMemory, 16); }},
                     {"lds_kept",
                      [] {
                        const DeviceArray<int*> kept(1);
                        Run(KeepLds, dim3(2), dim3(1), kept.get());
                      }},
                     {"stack",
                      [] {
                        const DeviceArray<int> out(1);
                        Run(OverflowStack, dim3(1), dim3(2), out.get(), 300);
                      }},
                     {"launch_from_kernel", [] { Run(LaunchFromKernel, dim3(1), dim3(1)); }},
                     {"outside_a_kernel", [] { std::printf("%u\n", threadIdx.x); }},
                 });
}
