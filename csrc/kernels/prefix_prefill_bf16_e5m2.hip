// Prefix prefill: bfloat16 over an fp8 e5m2 cache.
#include "detail/prefix_prefill_launch.h"

namespace hygon_backend {

HYGON_INSTANTIATE_PREFIX_PREFILL(BFloat16, Float8E5M2);

}  // namespace hygon_backend
