// Paged decode: bfloat16 queries and cache.
#include "detail/paged_decode_launch.h"

namespace hygon_backend {

HYGON_INSTANTIATE_PAGED_DECODE(BFloat16, BFloat16);

}  // namespace hygon_backend
