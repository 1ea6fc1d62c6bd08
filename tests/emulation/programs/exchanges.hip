#include "case_main.h"

namespace {

using namespace hygon_backend::emulation;

__global__ void Rotate(int* out) {
  const int* all = Exchange(Lane() * 10);
  out[threadIdx.x] = all[(Lane() + 1) % kWaveWidth];
}

struct Fragment {
  int numbers[kMaxExchangeBytes / sizeof(int)];
};

__global__ void LargestType(int* out) {
  Fragment mine;
  for (int& number : mine.numbers) {
    number = Lane();
  }
  mine.numbers[63] += 1000;
  const Fragment* all = Exchange(mine);
  const int from = kWaveWidth - 1 - Lane();
  out[threadIdx.x] = all[from].numbers[0] * 10000 + all[from].numbers[63];
}

// Looks at round n's values only after all that comes before its own next exchange, while others have
// already given theirs for round n + 1.
__global__ void ReadLate(int* out) {
  int sum = 0;
  for (int round = 0; round < 8; ++round) {
    const int* all = Exchange(Lane() + 100 * round);
    for (int lane = 0; lane < kWaveWidth; ++lane) {
      sum += all[lane];
    }
  }
  out[threadIdx.x] = sum;
}

__global__ void OddLanesReturn(int* out) {
  if (Lane() % 2 == 1) {
    return;
  }
  // A type other than the one before, so that the poison is not what an earlier exchange left.
  Exchange(1LL);
  const int* all = Exchange(Lane());
  out[threadIdx.x] = all[Lane()] * 1000 + all[Lane() + 1];
}

// The lanes that wait are complete once the others are gone.
__global__ void OthersReturnLater(int* out) {
  const bool stays = Lane() >= 8 && Lane() < 56;
  if (stays) {
    const int* all = Exchange(1);
    out[threadIdx.x] = all[0] + all[63];
  }
}

__global__ void WavesAtDifferentExchanges(int* out) {
  if (Wave() == 0) {
    out[threadIdx.x] = Exchange(Lane())[63];
  } else {
    out[threadIdx.x] = static_cast<int>(Exchange(2.0 * Lane())[63]);
  }
}

void Run(void (*kernel)(int*), unsigned threads) {
  const DeviceArray<int> out(threads);
  hipLaunchKernelGGL(kernel, dim3(1), dim3(threads), 0, nullptr, out.get());
  Print(out);
}

}  // namespace

int main(int argc, char** argv) {
  return RunCase(argc, argv,
                 {
                     {"rotate", [] { Run(Rotate, 128); }},
                     {"rotate_partial_wave", [] { Run(Rotate, 70); }},
                     {"largest_type", [] { Run(LargestType, 64); }},
                     {"read_late", [] { Run(ReadLate, 64); }},
                     {"odd_lanes_return", [] { Run(OddLanesReturn, 64); }},
                     {"others_return_later", [] { Run(OthersReturnLater, 64); }},
                     {"waves_at_different_exchanges", [] { Run(WavesAtDifferentExchanges, 128); }},
                 });
}
