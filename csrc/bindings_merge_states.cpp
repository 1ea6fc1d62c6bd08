// Python's view of merging attention results.
#include "hygon_build_info.h"

#if HYGON_HAS_DEVICE_KERNELS

#include "bindings_kernels.h"
#include "bindings_params.h"
#include "kernels/merge_states.h"

namespace hygon_backend {

void BindMergeStates(pybind11::module_& module) {
  using State = AttentionState;
  ParamsClass<State>(module, "AttentionState")
      .Pointer("out", &State::out)
      .Field("out_token_stride", &State::out_token_stride)
      .Field("out_head_stride", &State::out_head_stride)
      .Field("out_dim_stride", &State::out_dim_stride)
      .Pointer("lse", &State::lse)
      .Field("lse_token_stride", &State::lse_token_stride)
      .Field("lse_head_stride", &State::lse_head_stride);
  using Params = MergeStatesParams;
  ParamsClass<Params>(module, "MergeStatesParams")
      .Field("a", &Params::a)
      .Field("b", &Params::b)
      .Field("merged", &Params::merged)
      .Enum("type", &Params::type)
      .Field("num_tokens", &Params::num_tokens)
      .Field("num_heads", &Params::num_heads)
      .Field("head_size", &Params::head_size);
  DefineCall(module, "merge_states", &MergeStates, "Enqueues a merge of two attention results on a stream.");
}

}  // namespace hygon_backend

#endif  // HYGON_HAS_DEVICE_KERNELS
