"""The implementations under test: one entry of `BACKENDS` runs every test of `tests/cases`.

`torch` is the PyTorch path on the CPU, `emulation` the kernels' unchanged sources compiled for the
CPU with waves of 64 lanes, `cuda` the compiled extension on this machine's card. A machine with a card
always has the last one: no skip hides it when the extension is missing.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import ModuleType

import torch

from hygon_backend import ops
from support.counted_ops import CardOps, EmulatedOps


@dataclass(frozen=True)
class Backend:
    """An implementation of the operators and the device whose memory it works on.

    `ops` offers the functions of `hygon_backend.ops` under the same names and signatures. `dtype` is
    what problems are drawn in where a test does not say: kernels exist for half types only.
    """

    name: str
    ops: ModuleType | EmulatedOps
    device: torch.device
    dtype: torch.dtype

    def adopt(self, tensor: torch.Tensor) -> torch.Tensor:
        """Brings a tensor to the device with its strides; on the tensor's own device it is itself."""
        return self.adopt_all(tensor)[0]

    def adopt_all(self, *tensors: torch.Tensor) -> list[torch.Tensor]:
        """Brings tensors to the device; those that share an allocation go on sharing it."""
        moved: dict[int, torch.Tensor] = {}
        adopted = []
        for tensor in tensors:
            if tensor.device == self.device:
                adopted.append(tensor)
                continue
            storage = tensor.untyped_storage()
            if storage.data_ptr() not in moved:
                raw = torch.empty(0, dtype=torch.uint8, device=tensor.device).set_(storage)
                moved[storage.data_ptr()] = raw.to(self.device)
            view = torch.empty(0, dtype=tensor.dtype, device=self.device)
            target = moved[storage.data_ptr()].untyped_storage()
            adopted.append(view.set_(target, tensor.storage_offset(), tensor.shape, tensor.stride()))
        return adopted

    def adopt_optional(self, value: torch.Tensor | float | None) -> torch.Tensor | float | None:
        """`adopt` for an argument that may also be a number or None."""
        return self.adopt(value) if isinstance(value, torch.Tensor) else value


BACKENDS = {
    "torch": Backend("torch", ops, torch.device("cpu"), torch.float32),
    "emulation": Backend("emulation", EmulatedOps(), torch.device("cpu"), torch.bfloat16),
}
if torch.cuda.is_available():
    BACKENDS["cuda"] = Backend("cuda", CardOps(), torch.device("cuda:0"), torch.bfloat16)
