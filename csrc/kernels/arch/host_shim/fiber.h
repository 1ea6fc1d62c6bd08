#ifndef HYGON_BACKEND_CSRC_KERNELS_ARCH_HOST_SHIM_FIBER_H_
#define HYGON_BACKEND_CSRC_KERNELS_ARCH_HOST_SHIM_FIBER_H_

#include <cstddef>

#include "context.h"

namespace hygon_backend::emulation {

// Equal stacks, each with an inaccessible page below it: an overflow faults instead of corrupting a
// neighbour. Pages that no thread touches cost no memory.
class StackPool {
 public:
  explicit StackPool(std::size_t count);
  ~StackPool();
  StackPool(const StackPool&) = delete;
  StackPool& operator=(const StackPool&) = delete;

  std::size_t size() const { return count_; }
  Stack operator[](std::size_t index) const;

 private:
  std::size_t count_;
  std::size_t guard_bytes_;
  char* memory_;
};

// A function that can pause in the middle. Must be resumed by the OS thread that resumed it first.
class Fiber {
 public:
  using Body = void (*)(void* argument);

  // `body` must not return: it calls Suspend for the last time instead.
  Fiber(Stack stack, Body body, void* argument);
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  // Runs the body until it next suspends.
  void Resume();

  // Called by the body: makes Resume return.
  void Suspend();

 private:
  static void Enter(void* fiber);

  Stack stack_;
  Body body_;
  void* argument_;
  Context own_;
  Context resumer_;
  void* own_fake_stack_ = nullptr;
  const void* resumer_stack_bottom_ = nullptr;
  std::size_t resumer_stack_bytes_ = 0;
};

}  // namespace hygon_backend::emulation

#endif  // HYGON_BACKEND_CSRC_KERNELS_ARCH_HOST_SHIM_FIBER_H_
