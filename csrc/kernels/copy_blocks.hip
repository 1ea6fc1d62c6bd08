// Copies of whole pages, as bytes: element types do not matter here.
#include <hip/hip_runtime.h>

#include <algorithm>
#include <cstdint>

#include "detail/launch_check.h"
#include "detail/page_table.h"
#include "detail/require.h"
#include "kv_cache.h"

namespace hygon_backend {
namespace {

constexpr int kThreads = 256;
constexpr std::int64_t kMaxGridY = 65535;
// Words of a page that a thread copies before another block is worth starting.
constexpr std::int64_t kWordsPerThread = 4;
constexpr std::int64_t kMaxGridX = 1 << 20;

template <int kBytes>
struct alignas(kBytes) Word {
  unsigned char bytes[kBytes];
};
template <>
struct alignas(16) Word<16> {
  std::uint32_t parts[4];
};
template <>
struct Word<8> {
  std::uint64_t value;
};
template <>
struct Word<4> {
  std::uint32_t value;
};
template <>
struct Word<2> {
  std::uint16_t value;
};

// `rows` is the number of rows of a page.
template <int kBytes>
__global__ __launch_bounds__(kThreads) void CopyKernel(const CopyBlocksParams params, std::int64_t rows) {
  const std::int64_t row_words = params.row_bytes / kBytes;
  const std::int64_t words = rows * row_words;
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * kThreads;
  char* const pool = static_cast<char*>(params.cache);
  for (std::int64_t pair = blockIdx.y; pair < params.num_pairs; pair += gridDim.y) {
    const std::int64_t at = pair * params.pairs_row_stride;
    const std::int64_t source = ReadIndex(params.pairs, params.pairs_wide, at);
    const std::int64_t target = ReadIndex(params.pairs, params.pairs_wide, at + params.pairs_column_stride);
    const char* const from = pool + source * params.block_stride_bytes;
    char* const to = pool + target * params.block_stride_bytes;
    for (std::int64_t word = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x; word < words;
         word += step) {
      // A dense page has no axes and skips the divisions.
      std::int64_t offset = word * kBytes;
      if (params.num_axes > 0) {
        std::int64_t row = word / row_words;
        offset = (word - row * row_words) * kBytes;
        for (int axis = params.num_axes - 1; axis >= 0; --axis) {
          const std::int64_t rest = row / params.axis_sizes[axis];
          offset += (row - rest * params.axis_sizes[axis]) * params.axis_strides_bytes[axis];
          row = rest;
        }
      }
      *reinterpret_cast<Word<kBytes>*>(to + offset) = *reinterpret_cast<const Word<kBytes>*>(from + offset);
    }
  }
}

template <int kBytes>
void Launch(const CopyBlocksParams& params, std::int64_t rows, hipStream_t stream) {
  const std::int64_t words = rows * (params.row_bytes / kBytes);
  const std::int64_t per_block = kThreads * kWordsPerThread;
  const dim3 grid(static_cast<unsigned>(std::min((words + per_block - 1) / per_block, kMaxGridX)),
                  static_cast<unsigned>(std::min(params.num_pairs, kMaxGridY)));
  hipLaunchKernelGGL(CopyKernel<kBytes>, grid, dim3(kThreads), 0, stream, params, rows);
}

// All bits that any address or length has set: their lowest tells the widest word that fits all.
std::uint64_t AlignmentBits(const CopyBlocksParams& params) {
  std::uint64_t bits = reinterpret_cast<std::uintptr_t>(params.cache) |
                       static_cast<std::uint64_t>(params.block_stride_bytes) |
                       static_cast<std::uint64_t>(params.row_bytes);
  for (int axis = 0; axis < params.num_axes; ++axis) {
    bits |= static_cast<std::uint64_t>(params.axis_strides_bytes[axis]);
  }
  return bits;
}

}  // namespace

void CopyBlocks(const CopyBlocksParams& params, void* stream) {
  Require(params.num_axes >= 0 && params.num_axes <= kMaxPageAxes, "copy_blocks: a page has too many axes");
  std::int64_t rows = 1;
  for (int axis = 0; axis < params.num_axes; ++axis) rows *= params.axis_sizes[axis];
  if (params.num_pairs == 0 || rows == 0 || params.row_bytes == 0) return;
  auto* const hip_stream = static_cast<hipStream_t>(stream);
  const std::uint64_t bits = AlignmentBits(params);
  if (bits % 16 == 0) {
    Launch<16>(params, rows, hip_stream);
  } else if (bits % 8 == 0) {
    Launch<8>(params, rows, hip_stream);
  } else if (bits % 4 == 0) {
    Launch<4>(params, rows, hip_stream);
  } else if (bits % 2 == 0) {
    Launch<2>(params, rows, hip_stream);
  } else {
    Launch<1>(params, rows, hip_stream);
  }
  CheckHip(hipGetLastError(), "copy_blocks");
}

}  // namespace hygon_backend
