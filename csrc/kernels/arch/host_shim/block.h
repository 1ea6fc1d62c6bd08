#ifndef HYGON_BACKEND_CSRC_KERNELS_ARCH_HOST_SHIM_BLOCK_H_
#define HYGON_BACKEND_CSRC_KERNELS_ARCH_HOST_SHIM_BLOCK_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "emulation.h"
#include "fiber.h"
#include "launch.h"
#include "lds.h"

namespace hygon_backend::emulation {

// Sets of lanes, one bit each.
using LaneMask = std::uint64_t;
static_assert(sizeof(LaneMask) * 8 == kWaveWidth);

struct WaveState {
  // Every living lane is in exactly one of these three.
  LaneMask runnable = 0;
  LaneMask in_exchange = 0;
  LaneMask in_barrier = 0;

  const char* exchange_signature = nullptr;
  std::size_t exchange_bytes = 0;
  // Two, so that fast lanes can deposit their next value while slow ones still read the last.
  int exchange_buffer = 0;
  alignas(kWaveWidth) unsigned char exchanged[2][kWaveWidth * kMaxExchangeBytes];

  LaneMask living() const { return runnable | in_exchange | in_barrier; }
};

// Runs blocks, one at a time, with a fiber for each thread. A wave runs until all its lanes wait at the
// block's barrier or have returned, and only then the next wave: of all interleavings that a machine
// without barriers allows, this and its mirror image are the furthest apart.
class BlockRunner {
 public:
  explicit BlockRunner(bool reversed) : reversed_(reversed) {}
  BlockRunner(const BlockRunner&) = delete;
  BlockRunner& operator=(const BlockRunner&) = delete;

  void Run(const KernelCall& call, const GridPosition& position);

  // For the running thread.
  const void* Exchange(const void* mine, std::size_t bytes, const char* signature);
  void Barrier(const char* file, int line);
  Lds& lds() { return lds_; }

 private:
  struct Thread {
    Thread(BlockRunner* runner, Stack stack) : block(runner), fiber(stack, &BlockRunner::RunThreads, this) {}

    ThreadPosition position;
    BlockRunner* block;
    Fiber fiber;
  };

  static void RunThreads(void* thread);

  void MakeThreads(std::size_t count);
  void StartBlock(const GridPosition& position);
  WaveState* NextWave();
  int NextLane(const WaveState& wave) const;
  void Suspend();
  void EndThread();
  void CompleteExchange(WaveState& wave);
  void OpenBarrierIfAllWait();

  const bool reversed_;
  std::unique_ptr<StackPool> stacks_;
  // A deque, since a fiber cannot move.
  std::deque<Thread> threads_;
  std::vector<WaveState> waves_;
  Lds lds_;

  const KernelCall* call_ = nullptr;
  GridPosition position_;
  int living_threads_ = 0;
  int threads_in_barrier_ = 0;
  const char* barrier_file_ = nullptr;
  int barrier_line_ = 0;
  Thread* running_ = nullptr;
};

}  // namespace hygon_backend::emulation

#endif  // HYGON_BACKEND_CSRC_KERNELS_ARCH_HOST_SHIM_BLOCK_H_
