"""Promises inside the torch path that its operators do not show on every device."""

import math

import pytest
import torch
from support.backends import BACKENDS
from support.check import assert_output, run
from support.paging import page
from support.problem import make_problem

from hygon_backend.calls.score_rules import ScoreRules
from hygon_backend.torch_path import attention, kv_cache, scores
from hygon_backend.torch_path.gather import DenseKV
from hygon_backend.torch_path.scores import attend_fused, visibility

TORCH = BACKENDS["torch"]


def attend_leaving_nan(
    q: torch.Tensor, q_position: torch.Tensor, kv: DenseKV, rules: ScoreRules, *, square: bool
) -> torch.Tensor:
    """`attend_fused` as a kernel does it that divides by the empty sum of a row without keys."""
    out = attend_fused(q, q_position, kv, rules, square=square)
    blind = ~visibility(q_position, kv, rules).any(dim=2)
    return out.masked_fill(blind[..., None, None], math.nan)


@pytest.mark.parametrize("operator", ["paged_decode", "prefix_prefill"])
@pytest.mark.parametrize("kv_lens", [[1], [3], [4], [1, 2, 3, 40], [3, 3], [0, 3, 4]])
def test_rows_without_keys_are_0_whatever_the_fused_kernel_leaves(
    operator: str, kv_lens: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    problem = make_problem([4] * len(kv_lens), kv_lens)
    monkeypatch.setattr(attention, "attend_fused", attend_leaving_nan)
    out, _ = run(TORCH, operator, problem, page(problem, block_size=2))
    assert_output(out, problem)


def test_padding_is_visible_to_no_query() -> None:
    """Even without a causal mask, which hides the padding behind a sequence anyway."""
    valid = torch.tensor([[False, True, True, False]])
    kv = DenseKV(torch.zeros(1, 4, 1, 8), torch.zeros(1, 4, 1, 8), torch.tensor([[4, 5, 6, 7]]), valid)
    rules = ScoreRules(scale=1.0, causal=False, window=None, softcap=None, sinks=None, alibi_slopes=None)
    assert visibility(torch.tensor([[5, 9]]), kv, rules).tolist() == [valid.tolist() * 2]


@pytest.mark.parametrize("operator", ["paged_decode", "prefix_prefill"])
def test_a_requested_partition_size_is_used(operator: str, monkeypatch: pytest.MonkeyPatch) -> None:
    partitions: list[int] = []
    combine_all = scores.combine

    def spy(outs: torch.Tensor, lses: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        partitions.append(outs.shape[0])
        return combine_all(outs, lses)

    monkeypatch.setattr(scores, "combine", spy)
    problem = make_problem([2], [40])
    run(TORCH, operator, problem, page(problem), partition_size=16)
    assert partitions == [3]


@pytest.mark.parametrize("operator", ["paged_decode", "prefix_prefill"])
@pytest.mark.parametrize("cache_dtype", [torch.float32, torch.bfloat16])
def test_keys_beyond_the_range_of_the_query_type(operator: str, cache_dtype: torch.dtype) -> None:
    """Keys of 1e5 are infinite in float16; with queries of 1e-4 their logits are ordinary."""
    problem = make_problem([2], [40], dtype=torch.float16, cache_dtype=cache_dtype, sharpness=1e-4)
    problem.k[0].mul_(1e5)
    out, _ = run(TORCH, operator, problem, page(problem))
    rounding = torch.finfo(torch.float16).eps * problem.exact.out.abs().max().item()
    assert (out.double() - problem.exact.out).abs().max().item() <= rounding


def test_copied_pages_are_all_read_before_one_is_written() -> None:
    """The operator rejects such a mapping where it may read it, which on a card it may not."""
    pages = torch.arange(4).float()[:, None].repeat(1, 3)
    kv_cache.copy_blocks([pages], torch.tensor([[0, 1], [1, 2], [2, 0]]))
    assert pages[:, 0].tolist() == [2, 0, 1, 3]
