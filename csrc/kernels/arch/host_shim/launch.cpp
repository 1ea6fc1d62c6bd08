#include "launch.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <limits>
#include <thread>
#include <vector>

#include "block.h"
#include "runtime.h"
#include "settings.h"

namespace hygon_backend::emulation {
namespace {

constexpr std::uint64_t kMaxBlockThreads = 1024;
constexpr std::uint64_t kMaxGridX = std::numeric_limits<std::int32_t>::max();
constexpr std::uint64_t kMaxGridYZ = 65535;
// HIP counts the threads of one dimension in 32 bits.
constexpr std::uint64_t kMaxGridThreadsX = std::numeric_limits<std::uint32_t>::max();

constexpr std::uint64_t Count(dim3 size) { return std::uint64_t{size.x} * size.y * size.z; }

bool IsWithinLimits(dim3 grid, dim3 block) {
  const bool nonzero = grid.x != 0 && grid.y != 0 && grid.z != 0 && Count(block) != 0;
  const bool block_fits = block.x <= kMaxBlockThreads && block.y <= kMaxBlockThreads &&
                          block.z <= kMaxBlockThreads && Count(block) <= kMaxBlockThreads;
  return nonzero && block_fits && grid.x <= kMaxGridX && grid.y <= kMaxGridYZ && grid.z <= kMaxGridYZ &&
         std::uint64_t{grid.x} * block.x <= kMaxGridThreadsX;
}

dim3 BlockIndex(std::uint64_t linear, dim3 grid) {
  const std::uint64_t row = linear / grid.x;
  return dim3(static_cast<std::uint32_t>(linear % grid.x), static_cast<std::uint32_t>(row % grid.y),
              static_cast<std::uint32_t>(row / grid.y));
}

// One for each OS thread: its fibers must stay there.
BlockRunner& OwnBlockRunner() {
  thread_local BlockRunner runner(GetSettings().reversed);
  return runner;
}

void RunGrid(const KernelCall& call, dim3 grid, dim3 block) {
  const Settings& settings = GetSettings();
  const std::uint64_t blocks = Count(grid);
  std::atomic<std::uint64_t> started = 0;
  const auto run_blocks = [&] {
    BlockRunner& runner = OwnBlockRunner();
    for (std::uint64_t i = started++; i < blocks; i = started++) {
      runner.Run(call, {BlockIndex(settings.reversed ? blocks - 1 - i : i, grid), block, grid});
    }
  };
  std::vector<std::thread> helpers;
  for (std::uint64_t i = 1; i < std::min<std::uint64_t>(settings.workers, blocks); ++i) {
    helpers.emplace_back(run_blocks);
  }
  run_blocks();
  for (std::thread& helper : helpers) {
    helper.join();
  }
}

}  // namespace

void Launch(const KernelCall& call, dim3 grid, dim3 block, std::size_t dynamic_lds_bytes) {
  if (dynamic_lds_bytes != 0) {
    SetLastError(hipErrorInvalidValue);
  } else if (!IsWithinLimits(grid, block)) {
    SetLastError(hipErrorInvalidConfiguration);
  } else {
    RunGrid(call, grid, block);
  }
}

}  // namespace hygon_backend::emulation
