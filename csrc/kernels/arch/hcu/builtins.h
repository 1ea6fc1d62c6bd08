// The names of the MMAC builtins, which differ between releases of Hygon's compiler. All are known from
// public sources only. HYGON_MMAC_F16(rows, columns, sums) and HYGON_MMAC_BF16 are undefined where the
// compiler has none of them; -DHYGON_MMAC_F16=name and -DHYGON_MMAC_BF16=name name others.
#ifndef HYGON_BACKEND_CSRC_KERNELS_ARCH_HCU_BUILTINS_H_
#define HYGON_BACKEND_CSRC_KERNELS_ARCH_HCU_BUILTINS_H_

#if defined(HYGON_MMAC_STAND_IN)
#include "arch/hcu/stand_in.h"
#endif

#if !defined(HYGON_MMAC_F16)
#if __has_builtin(__builtin_hcu_mmac_f32_16x16x16_f16)
#define HYGON_MMAC_F16(rows, columns, sums) __builtin_hcu_mmac_f32_16x16x16_f16(rows, columns, sums)
#elif __has_builtin(__builtin_hcu_mmac_f32_16x16x16_f16_lit_lts)
#define HYGON_MMAC_F16(rows, columns, sums) \
  __builtin_hcu_mmac_f32_16x16x16_f16_lit_lts(rows, columns, sums, 0, 0)
#elif __has_builtin(__builtin_amdgcn_mmac_f32_16x16x16f16)
#define HYGON_MMAC_F16(rows, columns, sums) __builtin_amdgcn_mmac_f32_16x16x16f16(rows, columns, sums)
#endif
#endif

#if !defined(HYGON_MMAC_BF16)
#if __has_builtin(__builtin_hcu_mmac_f32_16x16x16_bf16)
#define HYGON_MMAC_BF16(rows, columns, sums) __builtin_hcu_mmac_f32_16x16x16_bf16(rows, columns, sums)
#elif __has_builtin(__builtin_hcu_mmac_f32_16x16x16_bf16_lit_lts)
#define HYGON_MMAC_BF16(rows, columns, sums) \
  __builtin_hcu_mmac_f32_16x16x16_bf16_lit_lts(rows, columns, sums, 0, 0)
#elif __has_builtin(__builtin_amdgcn_mmac_f32_16x16x16bf16)
#define HYGON_MMAC_BF16(rows, columns, sums) __builtin_amdgcn_mmac_f32_16x16x16bf16(rows, columns, sums)
#endif
#endif

#endif  // HYGON_BACKEND_CSRC_KERNELS_ARCH_HCU_BUILTINS_H_
