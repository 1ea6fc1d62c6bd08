// The fields that all attention params have, for the bindings of each operator.
#ifndef HYGON_BACKEND_CSRC_BINDINGS_ATTENTION_H_
#define HYGON_BACKEND_CSRC_BINDINGS_ATTENTION_H_

#include "bindings_params.h"
#include "kernels/attention.h"

namespace hygon_backend {

template <class Params>
void BindAttentionFields(ParamsClass<Params>& params) {
  using Shared = AttentionParams;
  params.Pointer("q", &Shared::q)
      .Field("q_token_stride", &Shared::q_token_stride)
      .Field("q_head_stride", &Shared::q_head_stride)
      .Pointer("k_cache", &Shared::k_cache)
      .Field("k_block_stride", &Shared::k_block_stride)
      .Field("k_token_stride", &Shared::k_token_stride)
      .Field("k_head_stride", &Shared::k_head_stride)
      .Field("k_dim_stride", &Shared::k_dim_stride)
      .Field("k_pack_stride", &Shared::k_pack_stride)
      .Field("k_pack", &Shared::k_pack)
      .Pointer("v_cache", &Shared::v_cache)
      .Field("v_block_stride", &Shared::v_block_stride)
      .Field("v_token_stride", &Shared::v_token_stride)
      .Field("v_head_stride", &Shared::v_head_stride)
      .Field("v_dim_stride", &Shared::v_dim_stride)
      .Pointer("block_table", &Shared::block_table)
      .Field("block_table_seq_stride", &Shared::block_table_seq_stride)
      .Field("block_table_column_stride", &Shared::block_table_column_stride)
      .Field("block_table_wide", &Shared::block_table_wide)
      .Pointer("seq_lens", &Shared::seq_lens)
      .Field("seq_lens_stride", &Shared::seq_lens_stride)
      .Field("seq_lens_wide", &Shared::seq_lens_wide)
      .Pointer("out", &Shared::out)
      .Field("out_token_stride", &Shared::out_token_stride)
      .Field("out_head_stride", &Shared::out_head_stride)
      .Field("out_dim_stride", &Shared::out_dim_stride)
      .Pointer("lse", &Shared::lse)
      .Field("lse_token_stride", &Shared::lse_token_stride)
      .Field("lse_head_stride", &Shared::lse_head_stride)
      .Pointer("workspace", &Shared::workspace)
      .Pointer("sinks", &Shared::sinks)
      .Pointer("alibi_slopes", &Shared::alibi_slopes)
      .Field("k_scale", &Shared::k_scale)
      .Pointer("k_scales", &Shared::k_scales)
      .Field("k_scales_stride", &Shared::k_scales_stride)
      .Field("v_scale", &Shared::v_scale)
      .Pointer("v_scales", &Shared::v_scales)
      .Field("v_scales_stride", &Shared::v_scales_stride)
      .Enum("query_type", &Shared::query_type)
      .Enum("cache_type", &Shared::cache_type)
      .Field("num_seqs", &Shared::num_seqs)
      .Field("num_heads", &Shared::num_heads)
      .Field("num_kv_heads", &Shared::num_kv_heads)
      .Field("head_size", &Shared::head_size)
      .Field("head_size_v", &Shared::head_size_v)
      .Field("block_size", &Shared::block_size)
      .Field("max_blocks", &Shared::max_blocks)
      .Field("scale", &Shared::scale)
      .Field("window", &Shared::window)
      .Field("softcap", &Shared::softcap)
      .Field("partition_size", &Shared::partition_size)
      .Field("num_partitions", &Shared::num_partitions)
      .Field("avoid_matrix_unit", &Shared::avoid_matrix_unit);
}

}  // namespace hygon_backend

#endif  // HYGON_BACKEND_CSRC_BINDINGS_ATTENTION_H_
