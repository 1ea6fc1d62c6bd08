"""The card's matrix unit holds its results where the kernels were built to look for them."""

from __future__ import annotations

import pytest
import torch

from hygon_backend import native
from hygon_backend.native_path.common import ELEMENT_TYPES


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_the_probe_finds_the_assumed_layout(dtype: torch.dtype) -> None:
    module = native.module_for(torch.device("cuda:0"))
    assert module is not None
    report = module.probe_fragments(ELEMENT_TYPES[dtype])
    assert report["matches"], report["message"]
