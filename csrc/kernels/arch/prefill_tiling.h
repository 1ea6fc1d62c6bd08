// What a block of the prefill kernel works on, by chip and by the head size that the kernel is made for.
#ifndef HYGON_BACKEND_CSRC_KERNELS_ARCH_PREFILL_TILING_H_
#define HYGON_BACKEND_CSRC_KERNELS_ARCH_PREFILL_TILING_H_

#include <hip/hip_runtime.h>

namespace hygon_backend {

struct PrefillTiling {
  // Query rows of a block, as a power of two, and keys that it brings into LDS at a time.
  int block_rows_log2;
  int stage_keys;
  // Keys whose scores a wave holds at a time.
  int tile_keys;
  // Of the query operands, steps of 32 dims, how many each wave keeps in LDS instead of registers.
  int staged_steps;

  __host__ __device__ constexpr int block_rows() const { return 1 << block_rows_log2; }
};

// `head_size` is a KernelHeadSize.
__host__ __device__ constexpr PrefillTiling TilingOf(int head_size) {
#if defined(__CUDACC__)
  // A lane of a wave of 32 holds twice as much as one of 64 and has 255 registers; LDS is plenty.
  return head_size <= 64    ? PrefillTiling{7, 128, 32, 0}
         : head_size <= 128 ? PrefillTiling{7, 64, 32, 4}
                            : PrefillTiling{6, 32, 32, head_size / 32};
#else
  return head_size <= 64    ? PrefillTiling{7, 64, 32, 0}
         : head_size <= 128 ? PrefillTiling{7, 32, 32, 0}
                            : PrefillTiling{6, 16, 16, 0};
#endif
}

}  // namespace hygon_backend

#endif  // HYGON_BACKEND_CSRC_KERNELS_ARCH_PREFILL_TILING_H_
