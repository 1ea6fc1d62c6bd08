"""The fragment probe as Python calls it, on the module over emulated kernels."""

import pytest
from support.emulation import emulated_module

HALF, BFLOAT16, FLOAT32 = 1, 2, 0


@pytest.mark.parametrize("element_type", [HALF, BFLOAT16])
def test_the_emulated_unit_is_as_compiled(element_type: int) -> None:
    report = emulated_module().probe_fragments(element_type)
    assert report["matches"] is True
    assert report["assumed"] == report["recovered"] == "MMAC layout 1"
    assert report["wave_width"] == 64
    assert report["places"][:5] == [(0, 0), (0, 4), (0, 8), (0, 12), (1, 0)]


def test_other_types_are_refused() -> None:
    with pytest.raises(ValueError, match="half or bfloat16"):
        emulated_module().probe_fragments(FLOAT32)
