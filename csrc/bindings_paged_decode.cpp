// Python's view of the paged decode.
#include "hygon_build_info.h"

#if HYGON_HAS_DEVICE_KERNELS

#include <pybind11/pybind11.h>

#include "bindings_attention.h"
#include "bindings_kernels.h"
#include "kernels/device_facts.h"
#include "kernels/paged_decode.h"

namespace py = pybind11;

namespace hygon_backend {

void BindPagedDecode(py::module_& module) {
  using Params = PagedDecodeParams;
  ParamsClass<Params> params(module, "PagedDecodeParams");
  BindAttentionFields(params);
  params.Field("q_seq_stride", &Params::q_seq_stride)
      .Field("out_seq_stride", &Params::out_seq_stride)
      .Field("lse_seq_stride", &Params::lse_seq_stride)
      .Field("q_len", &Params::q_len);

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
