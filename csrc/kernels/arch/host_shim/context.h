#ifndef HYGON_BACKEND_CSRC_KERNELS_ARCH_HOST_SHIM_CONTEXT_H_
#define HYGON_BACKEND_CSRC_KERNELS_ARCH_HOST_SHIM_CONTEXT_H_

#include <cstddef>

#if !defined(__x86_64__) && !defined(HYGON_EMULATION_UCONTEXT)
#define HYGON_EMULATION_UCONTEXT 1
#endif

#ifdef HYGON_EMULATION_UCONTEXT
#include <ucontext.h>
#endif

namespace hygon_backend::emulation {

struct Stack {
  void* bottom = nullptr;
  std::size_t bytes = 0;
};

// Where a flow of control stands: its stack and callee-saved registers. The floating-point control word is
// not switched, since kernels do not change it.
class Context {
 public:
  using Entry = void (*)(void* argument);

  // A place to save the flow that runs now.
  Context() = default;

  // Prepares a flow that will call entry(argument), which must not return.
  Context(Stack stack, Entry entry, void* argument);

  // Saves the running flow in `from` and continues `to`. Returns once another flow continues `from`.
  static void Switch(Context& from, Context& to);

 private:
#ifdef HYGON_EMULATION_UCONTEXT
  ucontext_t state_ = {};
#else
  void* stack_pointer_ = nullptr;
#endif
};

}  // namespace hygon_backend::emulation

#endif  // HYGON_BACKEND_CSRC_KERNELS_ARCH_HOST_SHIM_CONTEXT_H_
