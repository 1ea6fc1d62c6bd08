"""Speculative verification: tree masks in both of SGLang's forms, against the float64 reference."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from sglang.srt.model_executor.forward_batch_info import ForwardMode
from sglang.srt.speculative.ngram_info import NgramVerifyInput

from hygon_backend.errors import InvalidArgumentError, UnsupportedError
from hygon_backend.sglang_plugin import verify_mask
from tests.sglang_plugin.scene import Scene, error

DRAFT = 5
PREFIX = [33, 1, 64, 17]
TOLERANCE = 1e-5


def trees(count: int = len(PREFIX)) -> torch.Tensor:
    """`[count, DRAFT, DRAFT]` ancestor masks of random trees whose first node is the root."""
    generator = torch.Generator().manual_seed(4)
    masks = torch.eye(DRAFT, dtype=torch.bool).repeat(count, 1, 1)
    for mask in masks:
        for node in range(1, DRAFT):
            parent = int(torch.randint(0, node, (1,), generator=generator))
            mask[node] |= mask[parent]
    return masks


def full_mask(masks: torch.Tensor, prefix: list[int]) -> torch.Tensor:
    """SGLang's FULL_MASK: each draft token's row over the cached tokens and the draft, one after another."""
    rows = [torch.cat([mask.new_ones(DRAFT, n), mask], 1) for mask, n in zip(masks, prefix, strict=True)]
    return torch.cat([row.flatten() for row in rows])


def verify_input(mask: torch.Tensor | None) -> NgramVerifyInput:
    """The part of SGLang's own verify input that attention reads."""
    spec = NgramVerifyInput(draft_token_num=DRAFT, new_seq_lens=torch.zeros(1))
    spec.custom_mask = mask
    return spec


@pytest.mark.parametrize("form", ["full", "full with unused entries", "qlen only", "uint8"])
@pytest.mark.parametrize("page_size", [1, 16])
def test_tree_masks_give_the_reference_output(form: str, page_size: int) -> None:
    masks = trees()
    assert not torch.equal(masks, masks.new_ones(masks.shape).tril()), "a chain would prove nothing"
    mask = masks.flatten() if form == "qlen only" else full_mask(masks, PREFIX)
    if form == "full with unused entries":
        mask = torch.cat([mask, torch.zeros(100, dtype=torch.bool)])
    if form == "uint8":
        mask = mask.to(torch.uint8)
    scene = Scene(prefix=PREFIX, extend=[DRAFT] * 4, page_size=page_size, draft_tokens=DRAFT)
    out = scene.run(scene.batch(ForwardMode.TARGET_VERIFY, spec_info=verify_input(mask)))
    assert error(out, scene.expected(mask=masks)) < TOLERANCE
    assert error(out, scene.expected()) > 1e-2, "the mask must make a difference"


def test_no_mask_means_a_chain() -> None:
    scene = Scene(prefix=PREFIX, extend=[DRAFT] * 4, draft_tokens=DRAFT)
    out = scene.run(scene.batch(ForwardMode.TARGET_VERIFY, spec_info=verify_input(None)))
    assert error(out, scene.expected()) < TOLERANCE


def test_offsets_and_masks_are_the_documented_ones() -> None:
    seq_lens = torch.tensor([3, 1])
    masks = trees(2)
    dense, indptr = verify_mask.to_dense(masks.flatten(), seq_lens, DRAFT)
    assert indptr.tolist() == [0, DRAFT * (3 + DRAFT), DRAFT * (3 + DRAFT) + DRAFT * (1 + DRAFT)]
    assert torch.equal(dense, full_mask(masks, [3, 1]))
    unchanged, same = verify_mask.to_dense(dense, seq_lens, DRAFT)
    assert unchanged.data_ptr() == dense.data_ptr()
    assert torch.equal(same, indptr)
    assert verify_mask.uniform_offsets(seq_lens, DRAFT).tolist() == [0, DRAFT, 2 * DRAFT]


def test_a_draft_extend_reads_its_window() -> None:
    """The draft model catches up on the tokens just verified, a fixed number for each request."""
    scene = Scene(prefix=[33, 12], extend=[DRAFT, DRAFT], draft_tokens=DRAFT)
    spec = SimpleNamespace(num_tokens_per_req=DRAFT)
    out = scene.run(scene.batch(ForwardMode.DRAFT_EXTEND_V2, spec_info=spec))
    assert error(out, scene.expected()) < TOLERANCE


def test_ragged_verification_is_refused() -> None:
    scene = Scene(prefix=[3, 4], extend=[DRAFT, 2], draft_tokens=DRAFT)
    batch = scene.batch(ForwardMode.TARGET_VERIFY, spec_info=verify_input(None))
    with pytest.raises(UnsupportedError, match="a verify batch has 7 tokens for 2 requests, but must have 5"):
        scene.backend.init_forward_metadata(batch)


def test_a_mask_of_the_wrong_size_is_named() -> None:
    scene = Scene(prefix=PREFIX, extend=[DRAFT] * 4, draft_tokens=DRAFT)
    short = torch.ones(full_mask(trees(), PREFIX).shape[0] - 1, dtype=torch.bool)
    with pytest.raises(InvalidArgumentError, match="mask"):
        scene.run(scene.batch(ForwardMode.TARGET_VERIFY, spec_info=verify_input(short)))
    with pytest.raises(InvalidArgumentError, match=r"the shape of custom_mask is \[4, 25\]"):
        verify_mask.to_dense(trees().view(4, 25), torch.tensor(PREFIX), DRAFT)
