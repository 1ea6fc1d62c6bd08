// How kernels declare LDS ("shared memory").
#ifndef HYGON_BACKEND_CSRC_KERNELS_DETAIL_SHARED_H_
#define HYGON_BACKEND_CSRC_KERNELS_DETAIL_SHARED_H_

#include <hip/hip_runtime.h>

// HYGON_SHARED(type, name, count) declares `type name[count]` in the block's LDS, aligned for 16-byte
// accesses. It holds garbage at first. A type with a comma in its name needs an alias.
// The host emulation brings its own, which the plain keyword would not let it hook into.
#ifndef HYGON_SHARED
#define HYGON_SHARED(type, name, count) __shared__ __attribute__((aligned(16))) type name[count]
#endif

#endif  // HYGON_BACKEND_CSRC_KERNELS_DETAIL_SHARED_H_
