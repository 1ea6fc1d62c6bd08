// Prefix prefill: half over caches with any strides.
#include "detail/prefix_prefill_launch.h"

namespace hygon_backend {

HYGON_INSTANTIATE_PREFIX_PREFILL(Float16, AnyStored);

}  // namespace hygon_backend
