// Launching the decode kernel for one pair of element types. Each pair is a source file of its own
// (paged_decode_*.hip), so that a build compiles them side by side.
#ifndef HYGON_BACKEND_CSRC_KERNELS_DETAIL_PAGED_DECODE_LAUNCH_H_
#define HYGON_BACKEND_CSRC_KERNELS_DETAIL_PAGED_DECODE_LAUNCH_H_

#include <hip/hip_runtime.h>

#include "paged_decode_kernel.h"

namespace hygon_backend {

struct DecodeLaunch {
  dim3 grid;
  hipStream_t stream;
  int row_tiles;
  // Whether every run of dims can be one load: dense and aligned.
  bool vector;
};

// Enqueues the decode kernel for queries of T over a cache of `Stored`.
template <class T, class Stored>
void LaunchPagedDecode(const PagedDecodeParams& params, const DecodeLaunch& launch);

#define HYGON_DECLARE_PAGED_DECODE(T, Stored) \
  extern template void LaunchPagedDecode<T, Stored>(const PagedDecodeParams&, const DecodeLaunch&)

#define HYGON_INSTANTIATE_PAGED_DECODE(T, Stored) \
  template void LaunchPagedDecode<T, Stored>(const PagedDecodeParams&, const DecodeLaunch&)

namespace detail {

template <class T, class Stored, int kHeadSize, bool kVector>
void LaunchShape(const PagedDecodeParams& params, const DecodeLaunch& launch) {
  auto* kernel = &PagedDecodeKernel<T, Stored, kHeadSize, kVector, MatrixUnit>;
#if HYGON_HAS_FMA_FALLBACK
  if (params.avoid_matrix_unit) kernel = &PagedDecodeKernel<T, Stored, kHeadSize, kVector, FmaUnit>;
#endif
  hipLaunchKernelGGL(kernel, launch.grid, dim3(kDecodeThreads), 0, launch.stream, params, launch.row_tiles);
}

template <class T, class Stored, int kHeadSize>
void LaunchHeadSize(const PagedDecodeParams& params, const DecodeLaunch& launch) {
  if (launch.vector) {
    LaunchShape<T, Stored, kHeadSize, true>(params, launch);
  } else {
    LaunchShape<T, Stored, kHeadSize, false>(params, launch);
  }
}

}  // namespace detail

template <class T, class Stored>
void LaunchPagedDecode(const PagedDecodeParams& params, const DecodeLaunch& launch) {
  LaunchAtHeadSize(LargerHeadSize(params),
                   [&](auto head_size) { detail::LaunchHeadSize<T, Stored, head_size>(params, launch); });
}

}  // namespace hygon_backend

#endif  // HYGON_BACKEND_CSRC_KERNELS_DETAIL_PAGED_DECODE_LAUNCH_H_
