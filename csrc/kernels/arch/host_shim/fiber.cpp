#include "fiber.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "fatal.h"
#include "sanitizer.h"

namespace hygon_backend::emulation {
namespace {

// Generous, since kernels keep their tiles in locals and unoptimised or instrumented frames are large.
constexpr std::size_t kStackBytes = 256 * 1024;

// Stacks that all end at the same offset in a page would compete for the same few lines of the L1 cache.
constexpr std::size_t kStagger = 256;
constexpr std::size_t kStaggers = 16;

}  // namespace

StackPool::StackPool(std::size_t count)
    : count_(count), guard_bytes_(static_cast<std::size_t>(sysconf(_SC_PAGESIZE))) {
  const std::size_t total = count_ * (guard_bytes_ + kStackBytes);
  void* memory = mmap(nullptr, total, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) {
    Die("no address space for %zu thread stacks: %s", count_, std::strerror(errno));
  }
  memory_ = static_cast<char*>(memory);
  for (std::size_t i = 0; i < count_; ++i) {
    if (mprotect((*this)[i].bottom, kStackBytes, PROT_READ | PROT_WRITE) != 0) {
      Die("no memory for %zu thread stacks: %s", count_, std::strerror(errno));
    }
  }
}

StackPool::~StackPool() {
  const std::size_t total = count_ * (guard_bytes_ + kStackBytes);
  sanitizer::ForgetStack(memory_, total);
  munmap(memory_, total);
}

Stack StackPool::operator[](std::size_t index) const {
  char* bottom = memory_ + index * (guard_bytes_ + kStackBytes) + guard_bytes_;
  return {bottom, kStackBytes - index % kStaggers * kStagger};
}

Fiber::Fiber(Stack stack, Body body, void* argument)
    : stack_(stack), body_(body), argument_(argument), own_(stack, &Fiber::Enter, this) {}

void Fiber::Enter(void* fiber) {
  auto* self = static_cast<Fiber*>(fiber);
  sanitizer::AfterSwitch(nullptr, &self->resumer_stack_bottom_, &self->resumer_stack_bytes_);
  self->body_(self->argument_);
  Die("a fiber's body returned");
}

void Fiber::Resume() {
  void* fake_stack = nullptr;
  sanitizer::BeforeSwitch(&fake_stack, stack_.bottom, stack_.bytes);
  Context::Switch(resumer_, own_);
  sanitizer::AfterSwitch(fake_stack, nullptr, nullptr);
}

void Fiber::Suspend() {
  sanitizer::BeforeSwitch(&own_fake_stack_, resumer_stack_bottom_, resumer_stack_bytes_);
  Context::Switch(own_, resumer_);
  sanitizer::AfterSwitch(own_fake_stack_, &resumer_stack_bottom_, &resumer_stack_bytes_);
}

}  // namespace hygon_backend::emulation
