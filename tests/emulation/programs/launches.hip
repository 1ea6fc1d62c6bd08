#include "case_main.h"

namespace {

__global__ void CountThreads(int* count) { atomicAdd(count, 1); }

__global__ void NoArguments() {}

struct Large {
  double numbers[20];
};

template <class A, class B>
__global__ void Mixed(A a, B* absent, Large large, double* out) {
  *out = a + (absent == nullptr ? 100 : 200) + large.numbers[19];
}

// Parameters are the thread's own.
__global__ void ChangeParameter(int value, int* out) {
  value += static_cast<int>(threadIdx.x);
  out[threadIdx.x] = value;
}

// Prints: how many threads ran, what the launch left, peeked at, fetched, and fetched again.
void Try(dim3 grid, dim3 block, std::size_t dynamic_lds_bytes) {
  const DeviceArray<int> count(1);
  static_cast<void>(hipMemset(count.get(), 0, sizeof(int)));
  hipLaunchKernelGGL(CountThreads, grid, block, dynamic_lds_bytes, nullptr, count.get());
  std::printf("%d", count.ToHost()[0]);
  std::printf(" %d", hipPeekAtLastError());
  std::printf(" %d", hipGetLastError());
  std::printf(" %d\n", hipGetLastError());
}

void TryAllLimits() {
  const dim3 one(1);
  Try(dim3(2, 3, 4), dim3(4, 2, 2), 0);
  Try(one, dim3(1, 1024, 1), 0);
  Try(dim3(1, 65535, 1), one, 0);
  Try(dim3(1, 1, 65535), one, 0);
  std::printf("refused\n");
  Try(one, dim3(1025), 0);
  Try(one, dim3(32, 33), 0);
  Try(one, dim3(65536, 65536, 1), 0);
  Try(dim3(1, 65536, 1), one, 0);
  Try(dim3(1, 1, 65536), one, 0);
  Try(dim3(1U << 31), one, 0);
  Try(dim3(1U << 30), dim3(4), 0);
  Try(dim3(0), one, 0);
  Try(dim3(1, 0), one, 0);
  Try(dim3(1, 1, 0), one, 0);
  Try(one, dim3(0), 0);
  Try(one, dim3(1, 0), 0);
  Try(one, dim3(1, 1, 0), 0);
  Try(one, one, 16);
}

void PassArguments() {
  const DeviceArray<double> out(1);
  Large large = {};
  large.numbers[19] = 0.5;
  int evaluated = 0;
  hipLaunchKernelGGL((Mixed<double, float>), 1, 64, 0, 0, ++evaluated, nullptr, large, out.get());
  hipLaunchKernelGGL(NoArguments, dim3(1), dim3(1), 0, nullptr);
  std::printf("%g %d\n", out.ToHost()[0], evaluated);
}

void UseRuntime() {
  const DeviceArray<unsigned> fresh(1);
  int units = 0;
  int device = -1;
  static_cast<void>(hipGetDevice(&device));
  static_cast<void>(hipDeviceGetAttribute(&units, hipDeviceAttributeMultiprocessorCount, device));
  int copied = 0;
  const int value = 5;
  static_cast<void>(hipMemcpyAsync(&copied, &value, sizeof(int), hipMemcpyHostToDevice, nullptr));
  std::printf("%x %d %d %d", fresh.ToHost()[0], device, units, copied);
  std::printf(" %d %d", hipDeviceSynchronize(), hipStreamSynchronize(nullptr));
  std::printf(" %d", hipMemcpy(nullptr, &value, sizeof(int), hipMemcpyHostToDevice));
  std::printf(" %s\n", hipGetErrorString(hipGetLastError()));
}

__global__ void Contend(int* sum, float* float_sum, int* most, float* float_most) {
  const int me = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  for (int i = 0; i < 100; ++i) {
    atomicAdd(sum, 1);
    atomicAdd(float_sum, 1.0F);
  }
  atomicMax(most, me);
  atomicMax(float_most, static_cast<float>(-me));
}

void UseAtomics() {
  const DeviceArray<int> numbers(2);
  const DeviceArray<float> floats(2);
  static_cast<void>(hipMemset(numbers.get(), 0, 2 * sizeof(int)));
  const float start[] = {0.0F, -1e9F};
  static_cast<void>(hipMemcpy(floats.get(), start, sizeof(start), hipMemcpyHostToDevice));
  hipLaunchKernelGGL(Contend, dim3(100), dim3(128), 0, nullptr, numbers.get(), floats.get(),
                     numbers.get() + 1, floats.get() + 1);
  Print(numbers);
  Print(floats);
}

}  // namespace

int main(int argc, char** argv) {
  return RunCase(argc, argv,
                 {
                     {"limits", TryAllLimits},
                     {"arguments", PassArguments},
                     {"own_parameters",
                      [] {
                        const DeviceArray<int> out(4);
                        hipLaunchKernelGGL(ChangeParameter, dim3(1), dim3(4), 0, nullptr, 10, out.get());
                        Print(out);
                      }},
                     {"runtime", UseRuntime},
                     {"atomics", UseAtomics},
                 });
}
