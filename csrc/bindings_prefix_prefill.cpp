// Python's view of the prefix prefill.
#include "hygon_build_info.h"

#if HYGON_HAS_DEVICE_KERNELS

#include <pybind11/pybind11.h>

#include "bindings_attention.h"
#include "bindings_kernels.h"
#include "kernels/device_facts.h"
#include "kernels/prefix_prefill.h"

namespace py = pybind11;

namespace hygon_backend {

void BindPrefixPrefill(py::module_& module) {
  using Params = PrefixPrefillParams;
  ParamsClass<Params> params(module, "PrefixPrefillParams");
  BindAttentionFields(params);
  params.Pointer("cu_seqlens_q", &Params::cu_seqlens_q)
      .Field("cu_seqlens_q_stride", &Params::cu_seqlens_q_stride)
      .Field("cu_seqlens_q_wide", &Params::cu_seqlens_q_wide)
      .Pointer("kv_indptr", &Params::kv_indptr)
      .Field("kv_indptr_stride", &Params::kv_indptr_stride)
      .Field("kv_indptr_wide", &Params::kv_indptr_wide)
      .Pointer("custom_mask", &Params::custom_mask)
      .Pointer("mask_indptr", &Params::mask_indptr)
      .Field("mask_indptr_stride", &Params::mask_indptr_stride)
      .Field("mask_indptr_wide", &Params::mask_indptr_wide)
      .Field("q_scale", &Params::q_scale)
      .Pointer("q_scales", &Params::q_scales)
      .Enum("out_type", &Params::out_type)
      .Field("num_tokens", &Params::num_tokens)
      .Field("causal", &Params::causal);

  module.def(
      "choose_prefill_partitions",
      [](Params& call, int requested) { ChoosePartitions(call, NumComputeUnits(), requested); },
      py::arg("params"), py::arg("requested"),
      "Sets partition_size and num_partitions for the current device; requested 0 lets it choose.");
  module.def("prefix_prefill_workspace_bytes", &PrefixPrefillWorkspaceBytes, py::arg("params"),
             "Bytes of device memory that prefix_prefill needs as workspace.");
  DefineCall(module, "prefix_prefill", &PrefixPrefill, "Enqueues prefix prefill attention on a stream.");
}

}  // namespace hygon_backend

#endif  // HYGON_HAS_DEVICE_KERNELS
