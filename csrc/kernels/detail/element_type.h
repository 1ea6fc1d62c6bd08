// Element types by number, for the interface between the kernels and their callers. No device code, so
// that the bindings may include it.
#ifndef HYGON_BACKEND_CSRC_KERNELS_DETAIL_ELEMENT_TYPE_H_
#define HYGON_BACKEND_CSRC_KERNELS_DETAIL_ELEMENT_TYPE_H_

#include <cstddef>

namespace hygon_backend {

// The numbers are part of the interface: hygon_backend/native_path spells them too.
enum class ElementType : int {
  kFloat32 = 0,
  kFloat16 = 1,
  kBFloat16 = 2,
  kFloat8E4M3 = 3,
  kFloat8E5M2 = 4,
};

constexpr std::size_t ElementBytes(ElementType type) {
  switch (type) {
    case ElementType::kFloat32:
      return 4;
    case ElementType::kFloat16:
    case ElementType::kBFloat16:
      return 2;
    case ElementType::kFloat8E4M3:
    case ElementType::kFloat8E5M2:
      return 1;
  }
  return 0;
}

}  // namespace hygon_backend

#endif  // HYGON_BACKEND_CSRC_KERNELS_DETAIL_ELEMENT_TYPE_H_
