#include "case_main.h"
#include "detail/shared.h"

namespace {

using namespace hygon_backend::emulation;

constexpr int kThreads = 256;

// Each round, every thread hands its value on to the next. Both barriers are needed: one before reading
// what another wrote, one before overwriting what another still reads.
template <bool barrier_before_read, bool barrier_before_write>
__global__ void Rotate(int rounds, int* out) {
  HYGON_SHARED(int, tile, kThreads);
  const int me = static_cast<int>(threadIdx.x);
  int value = me;
  for (int round = 0; round < rounds; ++round) {
    tile[me] = value;
    if (barrier_before_read) {
      __syncthreads();
    }
    value = tile[(me + 1) % kThreads];
    if (barrier_before_write) {
      __syncthreads();
    }
  }
  out[me] = value;
}

// Wave 0 writes and wave 1 reads without a barrier, the reader a few exchanges later than the writer: an
// emulator that ran the waves in step would never see them out of order.
__global__ void ReadOtherWaveLate(int* out) {
  HYGON_SHARED(int, tile, kWaveWidth);
  if (Wave() == 0) {
    tile[Lane()] = Lane();
  } else {
    for (int i = 0; i < 4; ++i) {
      Exchange(i);
    }
    out[Lane()] = tile[Lane()];
  }
}

__global__ void SomeReturnEarly(int* out) {
  HYGON_SHARED(int, tile, kThreads);
  const int me = static_cast<int>(threadIdx.x);
  if (me % 3 == 0) {
    return;
  }
  tile[me] = me;
  __syncthreads();
  out[me] = tile[me % 3 == 1 ? me + 1 : me - 1];
}

// The barrier opens because the last thread that it waits for returns.
__global__ void LastReturns(int* out) {
  if (threadIdx.x == 0 || threadIdx.x == kThreads - 1) {
    return;
  }
  __syncthreads();
  out[threadIdx.x] = 1;
}

template <class Kernel, class... Arguments>
void Run(Kernel kernel, Arguments... arguments) {
  const DeviceArray<int> out(kThreads);
  hipLaunchKernelGGL(kernel, dim3(1), dim3(kThreads), 0, nullptr, arguments..., out.get());
  Print(out);
}

}  // namespace

int main(int argc, char** argv) {
  return RunCase(argc, argv,
                 {
                     {"rotate", [] { Run(Rotate<true, true>, 5); }},
                     {"no_barrier_before_read", [] { Run(Rotate<false, true>, 1); }},
                     {"no_barrier_before_write", [] { Run(Rotate<true, false>, 2); }},
                     {"read_other_wave_late",
                      [] {
                        const DeviceArray<int> out(kWaveWidth);
                        hipLaunchKernelGGL(ReadOtherWaveLate, dim3(1), dim3(2 * kWaveWidth), 0, nullptr,
                                           out.get());
                        Print(out);
                      }},
                     {"some_return_early", [] { Run(SomeReturnEarly); }},
                     {"last_returns", [] { Run(LastReturns); }},
                 });
}
