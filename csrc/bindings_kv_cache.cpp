// Python's view of cache writes, copies and gathers.
#include "hygon_build_info.h"

#if HYGON_HAS_DEVICE_KERNELS

#include <pybind11/stl.h>

#include <cstdint>
#include <stdexcept>
#include <utility>
#include <vector>

#include "bindings_kernels.h"
#include "bindings_params.h"
#include "kernels/kv_cache.h"

namespace py = pybind11;

namespace hygon_backend {
namespace {

void BindPart(py::module_& module) {
  ParamsClass<KvPart>(module, "KvPart")
      .Pointer("tokens", &KvPart::tokens)
      .Field("token_stride", &KvPart::token_stride)
      .Field("head_stride", &KvPart::head_stride)
      .Field("dim_stride", &KvPart::dim_stride)
      .Pointer("cache", &KvPart::cache)
      .Field("block_stride", &KvPart::block_stride)
      .Field("cache_token_stride", &KvPart::cache_token_stride)
      .Field("cache_head_stride", &KvPart::cache_head_stride)
      .Field("cache_dim_stride", &KvPart::cache_dim_stride)
      .Field("pack_stride", &KvPart::pack_stride)
      .Field("pack", &KvPart::pack)
      .Field("head_size", &KvPart::head_size)
      .Field("scale", &KvPart::scale)
      .Pointer("scales", &KvPart::scales)
      .Field("scales_stride", &KvPart::scales_stride);
}

void BindWrite(py::module_& module) {
  using Params = WriteKvParams;
  ParamsClass<Params>(module, "WriteKvParams")
      .Field("k", &Params::k)
      .Field("v", &Params::v)
      .Pointer("slots", &Params::slots)
      .Field("slots_stride", &Params::slots_stride)
      .Field("slots_wide", &Params::slots_wide)
      .Enum("token_type", &Params::token_type)
      .Enum("cache_type", &Params::cache_type)
      .Field("num_tokens", &Params::num_tokens)
      .Field("num_heads", &Params::num_heads)
      .Field("block_size", &Params::block_size);
  DefineCall(module, "write_kv", &WriteKv, "Enqueues a cache write on a stream.");
}

void BindGather(py::module_& module) {
  using Params = GatherKvParams;
  ParamsClass<Params>(module, "GatherKvParams")
      .Field("k", &Params::k)
      .Field("v", &Params::v)
      .Pointer("block_table", &Params::block_table)
      .Field("block_table_seq_stride", &Params::block_table_seq_stride)
      .Field("block_table_column_stride", &Params::block_table_column_stride)
      .Field("block_table_wide", &Params::block_table_wide)
      .Pointer("cu_seqlens", &Params::cu_seqlens)
      .Enum("token_type", &Params::token_type)
      .Enum("cache_type", &Params::cache_type)
      .Field("num_tokens", &Params::num_tokens)
      .Field("num_seqs", &Params::num_seqs)
      .Field("num_heads", &Params::num_heads)
      .Field("block_size", &Params::block_size);
  DefineCall(module, "gather_kv", &GatherKv, "Enqueues a gather on a stream.");
}

// (size, stride in bytes) of each axis.
using Axes = std::vector<std::pair<std::int64_t, std::int64_t>>;

void SetAxes(CopyBlocksParams& params, const Axes& axes) {
  if (axes.size() > kMaxPageAxes) throw std::invalid_argument("a page has too many axes");
  params.num_axes = 0;
  for (const auto& [size, stride] : axes) {
    params.axis_sizes[params.num_axes] = size;
    params.axis_strides_bytes[params.num_axes] = stride;
    ++params.num_axes;
  }
}

void BindCopy(py::module_& module) {
  using Params = CopyBlocksParams;
  ParamsClass<Params>(module, "CopyBlocksParams")
      .Pointer("cache", &Params::cache)
      .Field("block_stride_bytes", &Params::block_stride_bytes)
      .Field("row_bytes", &Params::row_bytes)
      .Pointer("pairs", &Params::pairs)
      .Field("pairs_row_stride", &Params::pairs_row_stride)
      .Field("pairs_column_stride", &Params::pairs_column_stride)
      .Field("pairs_wide", &Params::pairs_wide)
      .Field("num_pairs", &Params::num_pairs);
  module.def("set_page_axes", &SetAxes, py::arg("params"), py::arg("axes"),
             "Describes a page of CopyBlocksParams by the (size, stride in bytes) of each axis of rows.");
  DefineCall(module, "copy_blocks", &CopyBlocks, "Enqueues page copies within one cache on a stream.");
}

}  // namespace

void BindKvCache(py::module_& module) {
  BindPart(module);
  BindWrite(module);
  BindGather(module);
  BindCopy(module);
}

}  // namespace hygon_backend

#endif  // HYGON_HAS_DEVICE_KERNELS
