// Prefix prefill: half queries and cache.
#include "detail/prefix_prefill_launch.h"

namespace hygon_backend {

HYGON_INSTANTIATE_PREFIX_PREFILL(Float16, Float16);

}  // namespace hygon_backend
