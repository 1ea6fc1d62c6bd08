#include "case_main.h"

namespace {

using namespace hygon_backend::emulation;

// For each thread of the grid: its place as it sees it, and the sizes that it sees.
struct Seen {
  int visits;
  int wave;
  int lane;
  dim3 block_dim;
  dim3 grid_dim;
};

__device__ int LinearThread() {
  return static_cast<int>((threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x);
}

__global__ void Record(Seen* all) {
  const int block = static_cast<int>((blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x);
  const int threads = static_cast<int>(blockDim.x * blockDim.y * blockDim.z);
  Seen& seen = all[block * threads + LinearThread()];
  atomicAdd(&seen.visits, 1);
  seen.wave = Wave();
  seen.lane = Lane();
  seen.block_dim = blockDim;
  seen.grid_dim = gridDim;
}

void RecordGrid(dim3 grid, dim3 block) {
  const std::size_t count = std::size_t{grid.x} * grid.y * grid.z * block.x * block.y * block.z;
  const DeviceArray<Seen> seen(count);
  static_cast<void>(hipMemset(seen.get(), 0, count * sizeof(Seen)));
  hipLaunchKernelGGL(Record, grid, block, 0, nullptr, seen.get());
  for (const Seen& one : seen.ToHost()) {
    std::printf("%d %d %d", one.visits, one.wave, one.lane);
    std::printf(" %u %u %u", one.block_dim.x, one.block_dim.y, one.block_dim.z);
    std::printf(" %u %u %u\n", one.grid_dim.x, one.grid_dim.y, one.grid_dim.z);
  }
}

__global__ void RecordBlockOrder(int* next, int* order) {
  if (threadIdx.x == 0) {
    order[blockIdx.x] = atomicAdd(next, 1);
  }
}

}  // namespace

int main(int argc, char** argv) {
  return RunCase(argc, argv,
                 {
                     {"three_dimensions", [] { RecordGrid(dim3(3, 2, 2), dim3(5, 7, 3)); }},
                     {"largest_block", [] { RecordGrid(dim3(2), dim3(1024)); }},
                     {"block_sizes_in_turn",
                      [] {
                        RecordGrid(dim3(1), dim3(1));
                        RecordGrid(dim3(1), dim3(200));
                        RecordGrid(dim3(1), dim3(65));
                      }},
                     {"block_order",
                      [] {
                        const DeviceArray<int> next(1);
                        const DeviceArray<int> order(4);
                        static_cast<void>(hipMemset(next.get(), 0, sizeof(int)));
                        hipLaunchKernelGGL(RecordBlockOrder, dim3(4), dim3(64), 0, nullptr, next.get(),
                                           order.get());
                        Print(order);
                      }},
                 });
}
