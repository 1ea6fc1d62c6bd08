// Launching the prefill kernel for one pair of element types. Each pair is a source file of its own
// (prefix_prefill_*.hip), so that a build compiles them side by side.
#ifndef HYGON_BACKEND_CSRC_KERNELS_DETAIL_PREFIX_PREFILL_LAUNCH_H_
#define HYGON_BACKEND_CSRC_KERNELS_DETAIL_PREFIX_PREFILL_LAUNCH_H_

#include <hip/hip_runtime.h>

#include "prefix_prefill_kernel.h"

namespace hygon_backend {

// Enqueues the prefill kernel that computes in T over a cache of `Stored`.
template <class T, class Stored>
void LaunchPrefixPrefill(const PrefixPrefillParams& params, dim3 grid, hipStream_t stream);

#define HYGON_DECLARE_PREFIX_PREFILL(T, Stored) \
  extern template void LaunchPrefixPrefill<T, Stored>(const PrefixPrefillParams&, dim3, hipStream_t)

#define HYGON_INSTANTIATE_PREFIX_PREFILL(T, Stored) \
  template void LaunchPrefixPrefill<T, Stored>(const PrefixPrefillParams&, dim3, hipStream_t)

namespace detail {

template <class T, class Stored, int kHeadSize, bool kGeneral>
void LaunchPrefillRules(const PrefixPrefillParams& params, dim3 grid, hipStream_t stream) {
  auto* kernel = &PrefixPrefillKernel<T, Stored, kHeadSize, kGeneral, MatrixUnit>;
#if HYGON_HAS_FMA_FALLBACK
  if (params.avoid_matrix_unit) kernel = &PrefixPrefillKernel<T, Stored, kHeadSize, kGeneral, FmaUnit>;
#endif
  constexpr int kLdsBytes = PrefillBlock<T, Stored, kHeadSize, kGeneral, MatrixUnit>::kLdsBytes;
  hipLaunchKernelGGL(kernel, grid, dim3(kPrefillThreads), LargeSharedBytes(kernel, kLdsBytes), stream,
                     params);
}

template <class T, class Stored, int kHeadSize>
void LaunchPrefillShape(const PrefixPrefillParams& params, dim3 grid, hipStream_t stream) {
  const bool general =
      params.softcap != 0.0F || params.alibi_slopes != nullptr || params.custom_mask != nullptr;
  if constexpr (std::is_same_v<Stored, AnyStored>) {
    LaunchPrefillRules<T, Stored, kHeadSize, true>(params, grid, stream);
  } else if (general) {
    LaunchPrefillRules<T, Stored, kHeadSize, true>(params, grid, stream);
  } else {
    LaunchPrefillRules<T, Stored, kHeadSize, false>(params, grid, stream);
  }
}

}  // namespace detail

template <class T, class Stored>
void LaunchPrefixPrefill(const PrefixPrefillParams& params, dim3 grid, hipStream_t stream) {
  LaunchAtHeadSize(LargerHeadSize(params), [&](auto head_size) {
    detail::LaunchPrefillShape<T, Stored, head_size>(params, grid, stream);
  });
}

}  // namespace hygon_backend

#endif  // HYGON_BACKEND_CSRC_KERNELS_DETAIL_PREFIX_PREFILL_LAUNCH_H_
