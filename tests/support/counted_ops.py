"""The operators served by kernels, emulated or on a card, with proof that it was them who served."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

import torch

from hygon_backend import counters, native, ops
from support.emulation import emulated_module

_HALF = (torch.float16, torch.bfloat16)


def _attention_is_native(q: torch.Tensor, k_cache: torch.Tensor, options: dict[str, object]) -> bool:
    out = options.get("out")
    wide = [
        tensor.dtype
        for tensor in (q, out, k_cache)
        if isinstance(tensor, torch.Tensor) and tensor.itemsize > 1
    ]
    dtype = wide[0] if wide else torch.bfloat16
    return dtype in _HALF and (k_cache.dtype == dtype or k_cache.itemsize == 1)


def has_kernel(operator: str, arguments: tuple[object, ...], options: dict[str, object]) -> bool:
    """Whether a call must be served by a kernel. The rules are spelled out anew, not asked of the package."""
    if operator in ("paged_decode", "prefix_prefill", "ragged_prefill"):
        first = arguments[0] if arguments else options["q"]
        second = arguments[1] if len(arguments) > 1 else options.get("k_cache", options.get("k_buffer"))
        assert isinstance(first, torch.Tensor)
        assert isinstance(second, torch.Tensor)
        return _attention_is_native(first, second, options)
    return True


class CountedOps:
    """Has the functions of `hygon_backend.ops` and asserts that a call took the path it has to take."""

    path: str
    """What the counters call it when a kernel serves."""

    def __getattr__(self, operator: str) -> Callable[..., object]:
        function = getattr(ops, operator)

        def call(*arguments: object, **options: object) -> object:
            path = self.path if has_kernel(operator, arguments, options) else "torch"
            before = counters.snapshot().get(f"{operator}[{path}]", 0)
            with self.kernels():
                result = function(*arguments, **options)
            after = counters.snapshot().get(f"{operator}[{path}]", 0)
            assert after == before + 1, f"{operator} was not served by the {path} path"
            return result

        return call

    def kernels(self) -> AbstractContextManager[None]:
        """What makes the kernels serve."""
        raise NotImplementedError


class EmulatedOps(CountedOps):
    """Emulated kernels; builds the emulation when the first operator is called."""

    path = "emulated"

    def kernels(self) -> AbstractContextManager[None]:
        """Lets the emulation serve the CPU."""
        return native.emulated(emulated_module())


class CardOps(CountedOps):
    """The kernels of the extension module, on a card."""

    path = "native"

    def kernels(self) -> AbstractContextManager[None]:
        """Nothing: on a card they serve by themselves."""
        return nullcontext()
