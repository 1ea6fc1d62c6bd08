// Paged decode: bfloat16 queries, e4m3 cache.
#include "detail/paged_decode_launch.h"

namespace hygon_backend {

HYGON_INSTANTIATE_PAGED_DECODE(BFloat16, Float8E4M3);

}  // namespace hygon_backend
