"""Stand-ins for what stock SGLang imports but a machine without a card lacks: the one place for them.

| what | why | how | which versions | when it can go |
|---|---|---|---|---|
| `torch.ops.torchvision.nms`, `.qnms` | SGLang imports torchvision for every model, also without images; PyPI's torchvision is built for CUDA, its library does not load beside a CPU torch, and importing it then fails on these operators | defined when the library does not load; raise when called | SGLang 0.5.23, torchvision 0.28 | when SGLang imports torchvision for image models only, or PyPI's torchvision loads beside a CPU torch |
"""  # noqa: E501 (a table row cannot be broken)

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import NoReturn

import torch

from hygon_backend.errors import UnsupportedError

VISION_OPERATORS = ("nms", "qnms")

_SIGNATURE = "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"


def install() -> None:
    """Puts every stand-in in place that this machine needs; harmless when repeated."""
    if not torchvision_library_loads():
        define_vision_operators()


def torchvision_library_loads() -> bool:
    """Whether torchvision's compiled operators are usable, or torchvision is not installed at all."""
    spec = find_spec("torchvision")
    if spec is None or spec.origin is None:
        return True
    library = Path(spec.origin).with_name("_C.so")
    if not library.is_file():
        return False
    try:
        torch.ops.load_library(str(library))  # type: ignore[no-untyped-call]
    except OSError:
        return False
    return True


def define_vision_operators() -> None:
    """Defines the operators that importing torchvision looks for, unless real ones exist."""
    for name in VISION_OPERATORS:
        if not hasattr(torch.ops.torchvision, name):
            torch.library.define(f"torchvision::{name}", _SIGNATURE)
            torch.library.impl(f"torchvision::{name}", "default", _refuse_vision_operator)


def _refuse_vision_operator(dets: torch.Tensor, scores: torch.Tensor, iou_threshold: float) -> NoReturn:
    raise UnsupportedError(
        "non-maximum suppression of torchvision was called, but this torchvision's compiled operators do "
        "not load beside this torch: install a torchvision that was built for it"
    )
