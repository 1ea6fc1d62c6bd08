// Checks of what a launcher was given.
#ifndef HYGON_BACKEND_CSRC_KERNELS_DETAIL_REQUIRE_H_
#define HYGON_BACKEND_CSRC_KERNELS_DETAIL_REQUIRE_H_

#include <cstddef>
#include <cstdint>
#include <sstream>
#include <stdexcept>

namespace hygon_backend {

// Throws std::invalid_argument unless `condition` holds. The message is put together from its parts only
// then: launchers check on every call.
template <class... Parts>
void Require(bool condition, const Parts&... parts) {
  if (condition) return;
  std::ostringstream message;
  (message << ... << parts);
  throw std::invalid_argument(message.str());
}

inline bool IsAligned(const void* pointer, std::size_t bytes) {
  return reinterpret_cast<std::uintptr_t>(pointer) % bytes == 0;
}

}  // namespace hygon_backend

#endif  // HYGON_BACKEND_CSRC_KERNELS_DETAIL_REQUIRE_H_
