// Paged decode: half queries and cache.
#include "detail/paged_decode_launch.h"

namespace hygon_backend {

HYGON_INSTANTIATE_PAGED_DECODE(Float16, Float16);

}  // namespace hygon_backend
