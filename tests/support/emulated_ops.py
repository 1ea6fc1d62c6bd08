"""The operators served by emulated kernels, with proof that it was them who served."""

from __future__ import annotations

from collections.abc import Callable

import torch

from hygon_backend import counters, native, ops
from support.emulation import emulated_module

_HALF = (torch.float16, torch.bfloat16)


def _decode_is_native(q: torch.Tensor, k_cache: torch.Tensor) -> bool:
    return q.dtype in _HALF and (k_cache.dtype == q.dtype or k_cache.itemsize == 1)


def has_kernel(operator: str, arguments: tuple[object, ...], options: dict[str, object]) -> bool:
    """Whether a call must be served by a kernel. The rules are spelled out anew, not asked of the package."""
    if operator == "prefix_prefill":
        return False
    if operator == "paged_decode":
        first = arguments[0] if arguments else options["q"]
        second = arguments[1] if len(arguments) > 1 else options["k_cache"]
        assert isinstance(first, torch.Tensor)
        assert isinstance(second, torch.Tensor)
        return _decode_is_native(first, second)
    return True


class EmulatedOps:
    """Has the functions of `hygon_backend.ops`; builds the emulation when the first is called."""

    def __getattr__(self, operator: str) -> Callable[..., object]:
        function = getattr(ops, operator)

        def call(*arguments: object, **options: object) -> object:
            path = "emulated" if has_kernel(operator, arguments, options) else "torch"
            before = counters.snapshot().get(f"{operator}[{path}]", 0)
            with native.emulated(emulated_module()):
                result = function(*arguments, **options)
            after = counters.snapshot().get(f"{operator}[{path}]", 0)
            assert after == before + 1, f"{operator} was not served by the {path} path"
            return result

        return call
