#include "block.h"

#include <cstring>

#include "fatal.h"

namespace hygon_backend::emulation {
namespace {

constexpr LaneMask Bit(int lane) { return LaneMask{1} << lane; }

int LowestLane(LaneMask lanes) { return __builtin_ctzll(lanes); }
int HighestLane(LaneMask lanes) { return kWaveWidth - 1 - __builtin_clzll(lanes); }

// The block whose thread runs on this OS thread.
__thread BlockRunner* current_block = nullptr;

BlockRunner& CurrentBlock() {
  if (current_block == nullptr) {
    Die("device code was called outside a kernel");
  }
  return *current_block;
}

}  // namespace

__thread const ThreadPosition* current_thread = nullptr;

const void* ExchangeBytes(const void* mine, std::size_t bytes, const char* signature) {
  return CurrentBlock().Exchange(mine, bytes, signature);
}

void BlockBarrier(const char* file, int line) { CurrentBlock().Barrier(file, line); }

void* FindLds(const void* site, std::size_t bytes) { return CurrentBlock().lds().Find(site, bytes); }

void BlockRunner::Run(const KernelCall& call, const GridPosition& position) {
  if (current_block != nullptr) {
    Die("a kernel launched a kernel");
  }
  call_ = &call;
  StartBlock(position);
  current_block = this;
  while (living_threads_ > 0) {
    WaveState* wave = NextWave();
    if (wave == nullptr) {
      Die("deadlock: every thread of block (%u, %u, %u) waits", position.block_index.x,
          position.block_index.y, position.block_index.z);
    }
    const auto wave_index = static_cast<std::size_t>(wave - waves_.data());
    running_ = &threads_[wave_index * kWaveWidth + static_cast<std::size_t>(NextLane(*wave))];
    current_thread = &running_->position;
    running_->fiber.Resume();
    current_thread = nullptr;
  }
  current_block = nullptr;
  lds_.Clear();
}

// A fiber's body: a fiber outlives its thread and serves the thread of the same number in later blocks.
void BlockRunner::RunThreads(void* thread) {
  auto* self = static_cast<Thread*>(thread);
  for (;;) {
    const KernelCall& call = *self->block->call_;
    call.run(call.arguments);
    self->block->EndThread();
  }
}

void BlockRunner::MakeThreads(std::size_t count) {
  if (threads_.size() >= count) {
    return;
  }
  threads_.clear();
  stacks_ = std::make_unique<StackPool>(count);
  for (std::size_t i = 0; i < count; ++i) {
    threads_.emplace_back(this, (*stacks_)[i]);
  }
}

void BlockRunner::StartBlock(const GridPosition& position) {
  const dim3& size = position.block_dim;
  const auto count = static_cast<int>(size.x * size.y * size.z);
  MakeThreads(static_cast<std::size_t>(count));
  position_ = position;
  living_threads_ = count;
  threads_in_barrier_ = 0;
  waves_.resize(static_cast<std::size_t>((count + kWaveWidth - 1) / kWaveWidth));
  for (WaveState& wave : waves_) {
    wave.runnable = wave.in_exchange = wave.in_barrier = 0;
  }
  for (int i = 0; i < count; ++i) {
    ThreadPosition& thread = threads_[static_cast<std::size_t>(i)].position;
    const auto linear = static_cast<std::uint32_t>(i);
    thread.index = dim3(linear % size.x, linear / size.x % size.y, linear / size.x / size.y);
    thread.wave = i / kWaveWidth;
    thread.lane = i % kWaveWidth;
    thread.position = &position_;
    waves_[static_cast<std::size_t>(thread.wave)].runnable |= Bit(thread.lane);
  }
}

WaveState* BlockRunner::NextWave() {
  const std::size_t count = waves_.size();
  for (std::size_t i = 0; i < count; ++i) {
    WaveState& wave = waves_[reversed_ ? count - 1 - i : i];
    if (wave.runnable != 0) {
      return &wave;
    }
  }
  return nullptr;
}

int BlockRunner::NextLane(const WaveState& wave) const {
  return reversed_ ? HighestLane(wave.runnable) : LowestLane(wave.runnable);
}

void BlockRunner::Suspend() { running_->fiber.Suspend(); }

void BlockRunner::EndThread() {
  const ThreadPosition& thread = running_->position;
  WaveState& wave = waves_[static_cast<std::size_t>(thread.wave)];
  wave.runnable &= ~Bit(thread.lane);
  --living_threads_;
  // This may have been the last one that others waited for.
  CompleteExchange(wave);
  OpenBarrierIfAllWait();
  Suspend();
}

const void* BlockRunner::Exchange(const void* mine, std::size_t bytes, const char* signature) {
  const ThreadPosition& thread = running_->position;
  WaveState& wave = waves_[static_cast<std::size_t>(thread.wave)];
  if (wave.in_barrier != 0) {
    Die("divergence: this lane waits in %s, lane %d of its wave in __syncthreads at %s:%d", signature,
        LowestLane(wave.in_barrier), barrier_file_, barrier_line_);
  }
  if (wave.in_exchange == 0) {
    wave.exchange_signature = signature;
    wave.exchange_bytes = bytes;
  } else if (wave.exchange_signature != signature && std::strcmp(wave.exchange_signature, signature) != 0) {
    Die("divergence: this lane waits in %s, lane %d of its wave in %s", signature,
        LowestLane(wave.in_exchange), wave.exchange_signature);
  }
  unsigned char* values = wave.exchanged[wave.exchange_buffer];
  std::memcpy(values + static_cast<std::size_t>(thread.lane) * bytes, mine, bytes);
  wave.runnable &= ~Bit(thread.lane);
  wave.in_exchange |= Bit(thread.lane);
  CompleteExchange(wave);
  Suspend();
  return values;
}

void BlockRunner::CompleteExchange(WaveState& wave) {
  if (wave.in_exchange == 0 || wave.in_exchange != wave.living()) {
    return;
  }
  unsigned char* values = wave.exchanged[wave.exchange_buffer];
  for (LaneMask absent = ~wave.in_exchange; absent != 0; absent &= absent - 1) {
    std::memset(values + static_cast<std::size_t>(LowestLane(absent)) * wave.exchange_bytes, kPoisonByte,
                wave.exchange_bytes);
  }
  wave.exchange_buffer ^= 1;
  wave.runnable = wave.in_exchange;
  wave.in_exchange = 0;
}

void BlockRunner::Barrier(const char* file, int line) {
  const ThreadPosition& thread = running_->position;
  WaveState& wave = waves_[static_cast<std::size_t>(thread.wave)];
  if (wave.in_exchange != 0) {
    Die("divergence: this lane waits in __syncthreads at %s:%d, lane %d of its wave in %s", file, line,
        LowestLane(wave.in_exchange), wave.exchange_signature);
  }
  if (threads_in_barrier_ == 0) {
    barrier_file_ = file;
    barrier_line_ = line;
  } else if (barrier_line_ != line || std::strcmp(barrier_file_, file) != 0) {
    Die("divergence: this thread waits in __syncthreads at %s:%d, others of its block in the one at %s:%d",
        file, line, barrier_file_, barrier_line_);
  }
  wave.runnable &= ~Bit(thread.lane);
  wave.in_barrier |= Bit(thread.lane);
  ++threads_in_barrier_;
  OpenBarrierIfAllWait();
  Suspend();
}

void BlockRunner::OpenBarrierIfAllWait() {
  if (threads_in_barrier_ == 0 || threads_in_barrier_ != living_threads_) {
    return;
  }
  for (WaveState& wave : waves_) {
    wave.runnable |= wave.in_barrier;
    wave.in_barrier = 0;
  }
  threads_in_barrier_ = 0;
}

}  // namespace hygon_backend::emulation
