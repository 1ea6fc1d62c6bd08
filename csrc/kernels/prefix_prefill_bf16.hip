// Prefix prefill: bfloat16 queries and cache.
#include "detail/prefix_prefill_launch.h"

namespace hygon_backend {

HYGON_INSTANTIATE_PREFIX_PREFILL(BFloat16, BFloat16);

}  // namespace hygon_backend
