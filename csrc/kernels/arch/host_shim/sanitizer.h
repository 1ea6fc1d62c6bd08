// AddressSanitizer must be told when the stack changes under it. Without it, these do nothing.
#ifndef HYGON_BACKEND_CSRC_KERNELS_ARCH_HOST_SHIM_SANITIZER_H_
#define HYGON_BACKEND_CSRC_KERNELS_ARCH_HOST_SHIM_SANITIZER_H_

#include <cstddef>

#if defined(__SANITIZE_ADDRESS__)
#define HYGON_EMULATION_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define HYGON_EMULATION_ASAN 1
#endif
#endif

#ifdef HYGON_EMULATION_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

namespace hygon_backend::emulation::sanitizer {

// Call right before the stack changes to [bottom, bottom + bytes).
inline void BeforeSwitch([[maybe_unused]] void** own_fake_stack, [[maybe_unused]] const void* bottom,
                         [[maybe_unused]] std::size_t bytes) {
#ifdef HYGON_EMULATION_ASAN
  __sanitizer_start_switch_fiber(own_fake_stack, bottom, bytes);
#endif
}

// Call first thing on the new stack; says which stack was left.
inline void AfterSwitch([[maybe_unused]] void* own_fake_stack, [[maybe_unused]] const void** left_bottom,
                        [[maybe_unused]] std::size_t* left_bytes) {
#ifdef HYGON_EMULATION_ASAN
  __sanitizer_finish_switch_fiber(own_fake_stack, left_bottom, left_bytes);
#endif
}

// Frames that never returned leave marks, which would accuse the next owner of the memory.
inline void ForgetStack([[maybe_unused]] const void* bottom, [[maybe_unused]] std::size_t bytes) {
#ifdef HYGON_EMULATION_ASAN
  __asan_unpoison_memory_region(bottom, bytes);
#endif
}

}  // namespace hygon_backend::emulation::sanitizer

#endif  // HYGON_BACKEND_CSRC_KERNELS_ARCH_HOST_SHIM_SANITIZER_H_
