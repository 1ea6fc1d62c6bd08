#ifndef HYGON_BACKEND_CSRC_KERNELS_ARCH_HOST_SHIM_FATAL_H_
#define HYGON_BACKEND_CSRC_KERNELS_ARCH_HOST_SHIM_FATAL_H_

namespace hygon_backend::emulation {

// Prints one line that names the running block and thread, if any, and aborts. A kernel that breaks a
// rule of the machine has no caller to report to, and a core dump or debugger shows where it stood.
[[noreturn]] void Die(const char* format, ...) __attribute__((format(printf, 1, 2)));

}  // namespace hygon_backend::emulation

#endif  // HYGON_BACKEND_CSRC_KERNELS_ARCH_HOST_SHIM_FATAL_H_
