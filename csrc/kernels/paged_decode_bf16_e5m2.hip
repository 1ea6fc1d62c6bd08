// Paged decode: bfloat16 queries, e5m2 cache.
#include "detail/paged_decode_launch.h"

namespace hygon_backend {

HYGON_INSTANTIATE_PAGED_DECODE(BFloat16, Float8E5M2);

}  // namespace hygon_backend
