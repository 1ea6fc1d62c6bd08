// Python's view of the paged decode.
#include "hygon_build_info.h"

#if HYGON_HAS_DEVICE_KERNELS

#include <pybind11/pybind11.h>

#include "bindings_kernels.h"
#include "bindings_params.h"
#include "kernels/paged_decode.h"

namespace py = pybind11;

namespace hygon_backend {

void BindPagedDecode(py::module_& module) {
  using Params = PagedDecodeParams;
  ParamsClass<Params>(module, "PagedDecodeParams")
      .Pointer("q", &Params::q)
      .Field("q_seq_stride", &Params::q_seq_stride)
      .Field("q_token_stride", &Params::q_token_stride)
      .Field("q_head_stride", &Params::q_head_stride)
      .Pointer("k_cache", &Params::k_cache)
      .Field("k_block_stride", &Params::k_block_stride)
      .Field("k_token_stride", &Params::k_token_stride)
      .Field("k_head_stride", &Params::k_head_stride)
      .Field("k_dim_stride", &Params::k_dim_stride)
      .Field("k_pack_stride", &Params::k_pack_stride)
      .Field("k_pack", &Params::k_pack)
      .Pointer("v_cache", &Params::v_cache)
      .Field("v_block_stride", &Params::v_block_stride)
      .Field("v_token_stride", &Params::v_token_stride)
      .Field("v_head_stride", &Params::v_head_stride)
      .Field("v_dim_stride", &Params::v_dim_stride)
      .Pointer("block_table", &Params::block_table)
      .Field("block_table_seq_stride", &Params::block_table_seq_stride)
      .Field("block_table_column_stride", &Params::block_table_column_stride)
      .Field("block_table_wide", &Params::block_table_wide)
      .Pointer("seq_lens", &Params::seq_lens)
      .Field("seq_lens_stride", &Params::seq_lens_stride)
      .Field("seq_lens_wide", &Params::seq_lens_wide)
      .Pointer("out", &Params::out)
      .Field("out_seq_stride", &Params::out_seq_stride)
      .Field("out_token_stride", &Params::out_token_stride)
      .Field("out_head_stride", &Params::out_head_stride)
      .Field("out_dim_stride", &Params::out_dim_stride)
      .Pointer("lse", &Params::lse)
      .Field("lse_seq_stride", &Params::lse_seq_stride)
      .Field("lse_token_stride", &Params::lse_token_stride)
      .Field("lse_head_stride", &Params::lse_head_stride)
      .Pointer("workspace", &Params::workspace)
      .Pointer("sinks", &Params::sinks)
      .Pointer("alibi_slopes", &Params::alibi_slopes)
      .Field("k_scale", &Params::k_scale)
      .Pointer("k_scales", &Params::k_scales)
      .Field("k_scales_stride", &Params::k_scales_stride)
      .Field("v_scale", &Params::v_scale)
      .Pointer("v_scales", &Params::v_scales)
      .Field("v_scales_stride", &Params::v_scales_stride)
      .Enum("query_type", &Params::query_type)
      .Enum("cache_type", &Params::cache_type)
      .Field("num_seqs", &Params::num_seqs)
      .Field("q_len", &Params::q_len)
      .Field("num_heads", &Params::num_heads)
      .Field("num_kv_heads", &Params::num_kv_heads)
      .Field("head_size", &Params::head_size)
      .Field("head_size_v", &Params::head_size_v)
      .Field("block_size", &Params::block_size)
      .Field("max_blocks", &Params::max_blocks)
      .Field("scale", &Params::scale)
      .Field("window", &Params::window)
      .Field("softcap", &Params::softcap)
      .Field("partition_size", &Params::partition_size)
      .Field("num_partitions", &Params::num_partitions)
      .Field("avoid_matrix_unit", &Params::avoid_matrix_unit);

  module.def(
      "choose_partitions",
      [](Params& params, int requested) { ChoosePartitions(params, NumComputeUnits(), requested); },
      py::arg("params"), py::arg("requested"),
      "Sets partition_size and num_partitions for the current device; requested 0 lets it choose.");
  module.def("paged_decode_workspace_bytes", &PagedDecodeWorkspaceBytes, py::arg("params"),
             "Bytes of device memory that paged_decode needs as workspace.");
  DefineCall(module, "paged_decode", &PagedDecode, "Enqueues paged decode attention on a stream.");
}

}  // namespace hygon_backend

#endif  // HYGON_HAS_DEVICE_KERNELS
