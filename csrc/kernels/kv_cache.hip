// Cache writes and gathers. Both visit the same items: a run of dims of one head of one token, keys in the
// first plane of the grid and values in the second.
#include <hip/hip_runtime.h>

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "detail/convert_run.h"
#include "detail/launch_check.h"
#include "detail/numeric.h"
#include "detail/page_table.h"
#include "detail/require.h"
#include "kv_cache.h"

namespace hygon_backend {
namespace {

constexpr int kThreads = 256;
constexpr std::int64_t kMaxGridX = 0x7fffffff;

struct Shape {
  std::int64_t num_tokens;
  int num_heads;
  int block_size;
};

// A part with what the kernel would otherwise derive in every thread.
struct Plane {
  KvPart part;
  // Every run is dense and aligned on both sides.
  bool vector;
  bool scaled;
  int runs_per_head;
  int tokens_per_block;
};

struct Planes {
  Plane plane[2];
};

__device__ __forceinline__ float HeadScale(const KvPart& part, int head) {
  return part.scales == nullptr ? part.scale : part.scale * part.scales[head * part.scales_stride];
}

__device__ __forceinline__ std::int64_t CacheOffset(const KvPart& part, std::int64_t block, int slot,
                                                    int head, int dim) {
  const std::int64_t row =
      block * part.block_stride + slot * part.cache_token_stride + head * part.cache_head_stride;
  if (dim < part.pack) return row + dim * part.cache_dim_stride;
  return row + dim / part.pack * part.pack_stride + dim % part.pack * part.cache_dim_stride;
}

// Calls visit(token, head, dim, count) for this block's items, with dims dim .. dim + count - 1. `kRun`
// divides every pack, so no run crosses from one into the next.
template <int kRun, class Visit>
__device__ __forceinline__ void ForEachRun(const Plane& plane, const Shape& shape, Visit visit) {
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * plane.tokens_per_block;
  const std::int64_t left = shape.num_tokens - first;
  const int tokens = static_cast<int>(left < plane.tokens_per_block ? left : plane.tokens_per_block);
  const int runs = plane.runs_per_head * shape.num_heads;
  for (int item = static_cast<int>(threadIdx.x); item < tokens * runs; item += kThreads) {
    const int token = item / runs;
    const int run = item - token * runs;
    const int head = run / plane.runs_per_head;
    const int dim = (run - head * plane.runs_per_head) * kRun;
    const int count = plane.part.head_size - dim < kRun ? plane.part.head_size - dim : kRun;
    visit(first + token, head, dim, count);
  }
}

template <class Token, class Cached>
__global__ __launch_bounds__(kThreads) void WriteKernel(const Planes planes, const Shape shape,
                                                        const void* slots, std::int64_t slots_stride,
                                                        bool slots_wide) {
  const Plane& plane = planes.plane[blockIdx.y];
  const KvPart& part = plane.part;
  ForEachRun<kRunElements<Token, Cached>>(
      plane, shape, [&](std::int64_t token, int head, int dim, int count) {
        const std::int64_t place = ReadIndex(slots, slots_wide, token * slots_stride);
        if (place < 0) return;
        const std::int64_t block = place / shape.block_size;
        const int slot = static_cast<int>(place - block * shape.block_size);
        const Token* from = static_cast<const Token*>(part.tokens) + token * part.token_stride +
                            head * part.head_stride + dim * part.dim_stride;
        Cached* to = static_cast<Cached*>(part.cache) + CacheOffset(part, block, slot, head, dim);
        const float scale = plane.scaled ? HeadScale(part, head) : 1.0F;
        ConvertRun(to, part.cache_dim_stride, from, part.dim_stride, count, plane.vector, plane.scaled,
                   [scale](float x) { return x / scale; });
      });
}

// Index of the last of `count` rising offsets that is at most `token`.
__device__ __forceinline__ int FindSequence(const std::int32_t* offsets, int count, std::int64_t token) {
  int low = 0;
  int high = count;
  while (high - low > 1) {
    const int middle = low + (high - low) / 2;
    if (offsets[middle] <= token) {
      low = middle;
    } else {
      high = middle;
    }
  }
  return low;
}

template <class Token, class Cached>
__global__ __launch_bounds__(kThreads) void GatherKernel(const Planes planes, const Shape shape,
                                                         const GatherKvParams params) {
  const Plane& plane = planes.plane[blockIdx.y];
  const KvPart& part = plane.part;
  ForEachRun<kRunElements<Token, Cached>>(
      plane, shape, [&](std::int64_t token, int head, int dim, int count) {
        const int seq = FindSequence(params.cu_seqlens, params.num_seqs, token);
        const int position = static_cast<int>(token - params.cu_seqlens[seq]);
        const int column = position / shape.block_size;
        const std::int64_t block =
            ReadIndex(params.block_table, params.block_table_wide,
                      seq * params.block_table_seq_stride + column * params.block_table_column_stride);
        const int slot = position - column * shape.block_size;
        const Cached* from =
            static_cast<const Cached*>(part.cache) + CacheOffset(part, block, slot, head, dim);
        Token* to = static_cast<Token*>(part.tokens) + token * part.token_stride + head * part.head_stride +
                    dim * part.dim_stride;
        const float scale = plane.scaled ? HeadScale(part, head) : 1.0F;
        ConvertRun(to, part.dim_stride, from, part.cache_dim_stride, count, plane.vector, plane.scaled,
                   [scale](float x) { return x * scale; });
      });
}

template <class Token, class Cached>
bool CanVectorise(const KvPart& p) {
  constexpr int kRun = kRunElements<Token, Cached>;
  const bool dense = p.dim_stride == 1 && p.cache_dim_stride == 1 && p.head_size % kRun == 0;
  const bool strides = p.token_stride % kRun == 0 && p.head_stride % kRun == 0 &&
                       p.block_stride % kRun == 0 && p.cache_token_stride % kRun == 0 &&
                       p.cache_head_stride % kRun == 0 && p.pack_stride % kRun == 0;
  return dense && strides && IsAligned(p.tokens, kRun * sizeof(Token)) &&
         IsAligned(p.cache, kRun * sizeof(Cached));
}

template <class Token, class Cached>
Plane MakePlane(const KvPart& part, int num_heads) {
  constexpr int kRun = kRunElements<Token, Cached>;
  Plane plane;
  plane.part = part;
  plane.vector = CanVectorise<Token, Cached>(part);
  plane.scaled = part.scales != nullptr || part.scale != 1.0F;
  plane.runs_per_head = (part.head_size + kRun - 1) / kRun;
  plane.tokens_per_block = std::max(1, kThreads / std::max(1, plane.runs_per_head * num_heads));
  return plane;
}

// Enqueues `launch(planes, grid)`, whose kernel is for these two types.
template <class Token, class Cached, class Params, class Launch>
void LaunchPlanes(const Params& params, const char* name, Launch launch) {
  constexpr int kRun = kRunElements<Token, Cached>;
  for (const KvPart* part : {&params.k, &params.v}) {
    Require(part->pack >= part->head_size || part->pack % kRun == 0, name,
            ": dims are interleaved in packs of ", part->pack, ", but must be in multiples of ", kRun);
  }
  Planes planes = {{MakePlane<Token, Cached>(params.k, params.num_heads),
                    MakePlane<Token, Cached>(params.v, params.num_heads)}};
  // One grid serves both.
  const int together = std::min(planes.plane[0].tokens_per_block, planes.plane[1].tokens_per_block);
  planes.plane[0].tokens_per_block = planes.plane[1].tokens_per_block = together;
  const std::int64_t blocks = (params.num_tokens + together - 1) / together;
  Require(blocks <= kMaxGridX, name, ": too many tokens for one call");
  launch(planes, dim3(static_cast<unsigned>(blocks), 2));
  CheckHip(hipGetLastError(), name);
}

// Calls visit with an element of the type that `type` names.
template <class Visit>
void WithTokenType(ElementType type, const char* name, Visit visit) {
  switch (type) {
    case ElementType::kFloat32:
      return visit(Float32{});
    case ElementType::kFloat16:
      return visit(Float16{});
    case ElementType::kBFloat16:
      return visit(BFloat16{});
    default:
      Require(false, name, ": tokens must be float32, half or bfloat16");
  }
}

template <class Visit>
void WithCacheType(ElementType type, const char* name, Visit visit) {
  switch (type) {
    case ElementType::kFloat8E4M3:
      return visit(Float8E4M3{});
    case ElementType::kFloat8E5M2:
      return visit(Float8E5M2{});
    default:
      return WithTokenType(type, name, visit);
  }
}

bool IsEmpty(std::int64_t num_tokens, int num_heads) { return num_tokens == 0 || num_heads == 0; }

template <class Token, class Cached>
void LaunchGather(const GatherKvParams& params, hipStream_t stream) {
  LaunchPlanes<Token, Cached>(params, "gather_kv", [&](const Planes& planes, dim3 grid) {
    auto* kernel = &GatherKernel<Token, Cached>;
    hipLaunchKernelGGL(kernel, grid, dim3(kThreads), 0, stream, planes,
                       Shape{params.num_tokens, params.num_heads, params.block_size}, params);
  });
}

}  // namespace

void WriteKv(const WriteKvParams& params, void* stream) {
  if (IsEmpty(params.num_tokens, params.num_heads)) return;
  WithTokenType(params.token_type, "write_kv", [&](auto token) {
    WithCacheType(params.cache_type, "write_kv", [&](auto cached) {
      using Token = decltype(token);
      using Cached = decltype(cached);
      LaunchPlanes<Token, Cached>(params, "write_kv", [&](const Planes& planes, dim3 grid) {
        auto* kernel = &WriteKernel<Token, Cached>;
        hipLaunchKernelGGL(kernel, grid, dim3(kThreads), 0, static_cast<hipStream_t>(stream), planes,
                           Shape{params.num_tokens, params.num_heads, params.block_size}, params.slots,
                           params.slots_stride, params.slots_wide);
      });
    });
  });
}

void GatherKv(const GatherKvParams& params, void* stream) {
  if (IsEmpty(params.num_tokens, params.num_heads)) return;
  auto* const hip_stream = static_cast<hipStream_t>(stream);
  WithCacheType(params.cache_type, "gather_kv", [&](auto cached) {
    using Cached = decltype(cached);
    if (params.token_type == params.cache_type) return LaunchGather<Cached, Cached>(params, hip_stream);
    WithTokenType(params.token_type, "gather_kv", [&](auto token) {
      using Token = decltype(token);
      if constexpr (!std::is_same_v<Token, Cached>) LaunchGather<Token, Cached>(params, hip_stream);
    });
  });
}

}  // namespace hygon_backend
