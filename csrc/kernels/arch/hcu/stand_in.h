// Declared, never defined: lets a compiler that knows no MMAC builtin check the code that calls them.
// Nothing built with -DHYGON_MMAC_STAND_IN links into a kernel.
#ifndef HYGON_BACKEND_CSRC_KERNELS_ARCH_HCU_STAND_IN_H_
#define HYGON_BACKEND_CSRC_KERNELS_ARCH_HCU_STAND_IN_H_

#include <hip/hip_runtime.h>

namespace hygon_backend::arch {

using StandInFloats = float __attribute__((ext_vector_type(4)));
using StandInHalves = _Float16 __attribute__((ext_vector_type(4)));
using StandInBits = short __attribute__((ext_vector_type(4)));

extern "C" __device__ StandInFloats hygon_stand_in_mmac_f16(StandInHalves rows, StandInHalves columns,
                                                            StandInFloats sums);
extern "C" __device__ StandInFloats hygon_stand_in_mmac_bf16(StandInBits rows, StandInBits columns,
                                                             StandInFloats sums);

}  // namespace hygon_backend::arch

#define HYGON_MMAC_F16 ::hygon_backend::arch::hygon_stand_in_mmac_f16
#define HYGON_MMAC_BF16 ::hygon_backend::arch::hygon_stand_in_mmac_bf16

#endif  // HYGON_BACKEND_CSRC_KERNELS_ARCH_HCU_STAND_IN_H_
