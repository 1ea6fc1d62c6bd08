#include "context.h"

#include <cstdint>

namespace hygon_backend::emulation {

#ifdef HYGON_EMULATION_UCONTEXT

namespace {

// makecontext passes only ints.
void Enter(unsigned entry_high, unsigned entry_low, unsigned argument_high, unsigned argument_low) {
  const auto join = [](unsigned high, unsigned low) {
    return static_cast<std::uintptr_t>((static_cast<std::uint64_t>(high) << 32) | low);
  };
  const auto entry = reinterpret_cast<Context::Entry>(join(entry_high, entry_low));
  entry(reinterpret_cast<void*>(join(argument_high, argument_low)));
}

}  // namespace

Context::Context(Stack stack, Entry entry, void* argument) {
  getcontext(&state_);
  state_.uc_stack.ss_sp = stack.bottom;
  state_.uc_stack.ss_size = stack.bytes;
  state_.uc_link = nullptr;
  const auto entry_bits = static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(entry));
  const auto argument_bits = static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(argument));
  makecontext(&state_, reinterpret_cast<void (*)()>(Enter), 4, static_cast<unsigned>(entry_bits >> 32),
              static_cast<unsigned>(entry_bits), static_cast<unsigned>(argument_bits >> 32),
              static_cast<unsigned>(argument_bits));
}

void Context::Switch(Context& from, Context& to) { swapcontext(&from.state_, &to.state_); }

#else

// Outside any function, so that the compiler assumes nothing about what it leaves in registers.
// SwitchStack takes the place to save the stack pointer in rdi, and the one to continue with in rsi. It
// jumps rather than returns: the processor predicts returns from the calls it saw, and would be wrong.
// Enter is the first thing that runs on a fresh stack, and calls r13(r12).
asm(R"(
        .text
        .hidden hygon_emulation_switch_stack
        .globl  hygon_emulation_switch_stack
        .type   hygon_emulation_switch_stack, @function
hygon_emulation_switch_stack:
        pushq   %rbp
        pushq   %rbx
        pushq   %r12
        pushq   %r13
        pushq   %r14
        pushq   %r15
        movq    %rsp, (%rdi)
        movq    %rsi, %rsp
        popq    %r15
        popq    %r14
        popq    %r13
        popq    %r12
        popq    %rbx
        popq    %rbp
        popq    %rcx
        jmpq    *%rcx
        .size   hygon_emulation_switch_stack, . - hygon_emulation_switch_stack

        .hidden hygon_emulation_enter
        .globl  hygon_emulation_enter
        .type   hygon_emulation_enter, @function
hygon_emulation_enter:
        movq    %r12, %rdi
        jmpq    *%r13
        .size   hygon_emulation_enter, . - hygon_emulation_enter
)");

namespace {

extern "C" {
void SwitchStack(void** saved, void* next) __asm__("hygon_emulation_switch_stack")
    __attribute__((visibility("hidden")));
void Enter() __asm__("hygon_emulation_enter") __attribute__((visibility("hidden")));
}

// What SwitchStack pops, lowest address first.
struct SavedFrame {
  std::uintptr_t r15;
  std::uintptr_t r14;
  std::uintptr_t r13;
  std::uintptr_t r12;
  std::uintptr_t rbx;
  std::uintptr_t rbp;
  std::uintptr_t resume_address;
  // Only in a fresh frame: stands where entry's return address would be, so that the stack is aligned as
  // the ABI wants it and backtraces end here.
  std::uintptr_t end_of_backtrace;
};
static_assert(sizeof(SavedFrame) % 16 == 0);

}  // namespace

Context::Context(Stack stack, Entry entry, void* argument) {
  const std::uintptr_t end = reinterpret_cast<std::uintptr_t>(stack.bottom) + stack.bytes;
  auto* frame = reinterpret_cast<SavedFrame*>(end / 16 * 16) - 1;
  *frame = {};
  frame->r12 = reinterpret_cast<std::uintptr_t>(argument);
  frame->r13 = reinterpret_cast<std::uintptr_t>(entry);
  frame->resume_address = reinterpret_cast<std::uintptr_t>(&Enter);
  stack_pointer_ = frame;
}

void Context::Switch(Context& from, Context& to) { SwitchStack(&from.stack_pointer_, to.stack_pointer_); }

#endif

}  // namespace hygon_backend::emulation
