// The target's matrix unit, `MatrixUnit`; see fragment.h for what a unit is.
#ifndef HYGON_BACKEND_CSRC_KERNELS_DETAIL_MATRIX_H_
#define HYGON_BACKEND_CSRC_KERNELS_DETAIL_MATRIX_H_

#include <hip/hip_runtime.h>

#if defined(HYGON_EMULATION)
#include "arch/host/matrix.h"
#elif defined(__CUDACC__)
#include "arch/nvidia/matrix.h"
#elif defined(__gfx926__) || defined(__gfx928__) || defined(__gfx936__) || defined(__gfx938__)
#include "arch/hcu/matrix.h"
#else
// AMD chips, Hygon's gfx906 and the host's pass over the source.
#include "arch/amd/matrix.h"
#endif

#include "fma_unit.h"

// Whether launchers also offer the kernels without the matrix unit, for cards that hold its fragments
// otherwise than assumed. NVIDIA's and AMD's fragments are documented.
#if defined(HYGON_EMULATION) || defined(HYGON_TARGET_HCU)
#define HYGON_HAS_FMA_FALLBACK 1
#else
#define HYGON_HAS_FMA_FALLBACK 0
#endif

namespace hygon_backend {

using arch::MatrixUnit;

}  // namespace hygon_backend

#endif  // HYGON_BACKEND_CSRC_KERNELS_DETAIL_MATRIX_H_
