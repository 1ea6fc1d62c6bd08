// Merging the partitions of a split call (Flash-Decoding, Dao et al., 2023).
#ifndef HYGON_BACKEND_CSRC_KERNELS_DETAIL_COMBINE_H_
#define HYGON_BACKEND_CSRC_KERNELS_DETAIL_COMBINE_H_

#include <hip/hip_runtime.h>

#include <cstdint>

#include "row_result.h"

namespace hygon_backend {

constexpr int kCombineThreads = 128;

// One block a query row. Of `Rows`, made from the params, it needs Count(), the number of rows;
// Place(row); and LivePartitions(row), how many partitions wrote a result.
template <class T, class Params, class Rows>
__global__ __launch_bounds__(kCombineThreads) void CombineKernel(const Params params) {
  const Rows rows(params);
  const std::int64_t row = blockIdx.x;
  const RowPlace place = rows.Place(row);
  // Partition 0 of a row without keys holds an empty result.
  const int live = rows.LivePartitions(row);
  const int count = live > 1 ? live : 1;
  const float* lse = WorkspaceLse(params) + row * params.num_partitions;
  const float* parts =
      WorkspaceOutputs(params, rows.Count()) + row * params.num_partitions * params.head_size_v;

  float maximum = HYGON_MINUS_INFINITY;
  for (int part = 0; part < count; ++part) maximum = fmaxf(maximum, lse[part]);
  float sum = 0.0F;
  for (int part = 0; part < count; ++part) sum += PartWeight(lse[part], maximum);
  const Denominator denominator(params, place.head, maximum, sum);
  const float factor = denominator.OutputFactor();

  T* out = static_cast<T*>(params.out) + place.out;
  for (int dim = static_cast<int>(threadIdx.x); dim < params.head_size_v; dim += kCombineThreads) {
    float value = 0.0F;
    for (int part = 0; part < count; ++part) {
      value +=
          PartWeight(lse[part], maximum) * parts[static_cast<std::int64_t>(part) * params.head_size_v + dim];
    }
    out[dim * params.out_dim_stride] = FromFloat<T>(value * factor);
  }
  if (params.lse != nullptr && threadIdx.x == 0) params.lse[place.lse] = denominator.NaturalLse();
}

}  // namespace hygon_backend

#endif  // HYGON_BACKEND_CSRC_KERNELS_DETAIL_COMBINE_H_
