"""Pages as rows of dense bytes, by as few axes as possible, for the native page copy."""

import pytest
import torch

from hygon_backend.native_path.copy_blocks import MAX_PAGE_AXES, page_shape, supports

DENSE = torch.empty(5, 4, 3, 16, dtype=torch.float16)
GAPPED = torch.empty(5, 4, 3, 20, dtype=torch.float16)[..., :16]
LAYERED = torch.empty(5, 2, 4, 3, 16, dtype=torch.float16)[:, 1]


@pytest.mark.parametrize(
    ("cache", "row_bytes", "axes"),
    [
        (DENSE, 4 * 3 * 16 * 2, ()),
        (DENSE.permute(0, 2, 3, 1), 4 * 3 * 16 * 2, ()),
        (LAYERED, 4 * 3 * 16 * 2, ()),
        (GAPPED, 16 * 2, ((12, 40),)),
        (GAPPED.permute(0, 3, 2, 1), 16 * 2, ((12, 40),)),
        (GAPPED[:, ::2], 16 * 2, ((2, 240), (3, 40))),
        (GAPPED[..., ::2], 2, ((12, 40), (8, 4))),
        (GAPPED[:, :1, :1, :1], 2, ()),
        (torch.empty(5, 1, 16).expand(5, 3, 16), 64, ()),
    ],
)
def test_pages(cache: torch.Tensor, row_bytes: int, axes: tuple[tuple[int, int], ...]) -> None:
    shape = page_shape(cache)
    assert (shape.row_bytes, shape.axes) == (row_bytes, axes)


def test_pages_of_too_many_axes_are_left_to_torch() -> None:
    cache = torch.empty(2, *[3] * (MAX_PAGE_AXES + 1))[(slice(None), *[slice(None, None, 2)] * 7)]
    assert len(page_shape(cache).axes) == MAX_PAGE_AXES + 1
    assert not supports([DENSE, cache])
    assert supports([DENSE, GAPPED])
