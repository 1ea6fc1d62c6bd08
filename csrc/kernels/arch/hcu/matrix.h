// MMAC 16x16x16 of Hygon's gfx926, gfx928, gfx936 and gfx938.
//
// Where the lanes hold a result is known from public sources only, not from a card: it is a trait here,
// and `hygon-backend check` compares it with what the user's card does.
#ifndef HYGON_BACKEND_CSRC_KERNELS_ARCH_HCU_MATRIX_H_
#define HYGON_BACKEND_CSRC_KERNELS_ARCH_HCU_MATRIX_H_

#include <type_traits>

#include "arch/hcu/builtins.h"
#include "arch/hcu/mmac_layout.h"
#include "detail/fma_unit.h"
#include "detail/fragment.h"
#include "detail/numeric.h"

namespace hygon_backend::arch {

#if defined(__gfx938__)
using MmacResult = MmacLayout2;
#else
using MmacResult = MmacLayout1;
#endif

#if defined(HYGON_MMAC_F16) && defined(HYGON_MMAC_BF16)

struct MatrixUnit : MmacResult {
  template <class T>
  __device__ static __forceinline__ void MultiplyAdd(Tile& tile, const Operand& rows,
                                                     const Operand& columns) {
    using Floats = float __attribute__((ext_vector_type(4)));
    auto accumulator = BitCast<Floats>(tile);
    if constexpr (std::is_same_v<T, BFloat16>) {
      using Bits = short __attribute__((ext_vector_type(4)));
      accumulator = HYGON_MMAC_BF16(BitCast<Bits>(rows), BitCast<Bits>(columns), accumulator);
    } else {
      static_assert(std::is_same_v<T, Float16>);
      using Halves = _Float16 __attribute__((ext_vector_type(4)));
      accumulator = HYGON_MMAC_F16(BitCast<Halves>(rows), BitCast<Halves>(columns), accumulator);
    }
    tile = BitCast<Tile>(accumulator);
  }
};

#else

#warning \
    "this compiler has no MMAC builtin that arch/hcu/builtins.h knows: multiplying without the matrix unit"
struct MatrixUnit : FmaUnit {};

#endif

}  // namespace hygon_backend::arch

#endif  // HYGON_BACKEND_CSRC_KERNELS_ARCH_HCU_MATRIX_H_
