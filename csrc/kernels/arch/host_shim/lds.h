// The emulated block's LDS ("shared memory").
#ifndef HYGON_BACKEND_CSRC_KERNELS_ARCH_HOST_SHIM_LDS_H_
#define HYGON_BACKEND_CSRC_KERNELS_ARCH_HOST_SHIM_LDS_H_

#include <cstddef>
#include <memory>
#include <type_traits>
#include <vector>

namespace hygon_backend::emulation {

constexpr std::size_t kLdsBytes = 64 * 1024;
constexpr std::size_t kLdsAlignment = 16;

// The arrays that one block declared. Each is a heap block of its own, so that AddressSanitizer sees an
// index past its end, and each starts poisoned, so that no value of an earlier block survives.
class Lds {
 public:
  // The array that `site` declared in this block; the first thread to get there makes it.
  void* Find(const void* site, std::size_t bytes);

  void Clear();

 private:
  struct Free {
    void operator()(void* memory) const;
  };
  struct Array {
    const void* site;
    std::unique_ptr<void, Free> memory;
  };

  std::vector<Array> arrays_;
  std::size_t used_bytes_ = 0;
};

// Lds::Find for the running block.
void* FindLds(const void* site, std::size_t bytes);

template <class T, std::size_t count>
T (&LdsArray(const void* site))
[count] {
  static_assert(std::is_trivially_default_constructible_v<T> && std::is_trivially_destructible_v<T>,
                "LDS is raw memory: nothing constructs what lies there");
  static_assert(alignof(T) <= kLdsAlignment);
  return *static_cast<T(*)[count]>(FindLds(site, sizeof(T) * count));
}

}  // namespace hygon_backend::emulation

// The lambda's static gives each declaration, and each instantiation of a template around it, an address
// of its own to be known by.
#define HYGON_SHARED(type, name, count)                                                    \
  type(&name)[count] = ::hygon_backend::emulation::LdsArray<type, (count)>([]() -> char* { \
    static char site;                                                                      \
    return &site;                                                                          \
  }())

#endif  // HYGON_BACKEND_CSRC_KERNELS_ARCH_HOST_SHIM_LDS_H_
