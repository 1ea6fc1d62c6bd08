// Prefix prefill: bfloat16 over an fp8 e4m3 cache.
#include "detail/prefix_prefill_launch.h"

namespace hygon_backend {

HYGON_INSTANTIATE_PREFIX_PREFILL(BFloat16, Float8E4M3);

}  // namespace hygon_backend
