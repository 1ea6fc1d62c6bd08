"""`reference.attend` against numbers worked out by hand and against torch's own attention."""

import math

import pytest
import torch
import torch.nn.functional as F  # noqa: N812 (the name everyone uses)
from support.problem import Rules, visible

from hygon_backend import reference

# The mask picture of the source document, section 3.2: 3 queries after a prefix of 4.
DOCUMENT_MASK = [
    [1, 1, 1, 1, 1, 0, 0],
    [1, 1, 1, 1, 1, 1, 0],
    [1, 1, 1, 1, 1, 1, 1],
]


def one_head(values: list[float]) -> torch.Tensor:
    """Tokens of one head of size 1: `[L, 1, 1]`."""
    return torch.tensor(values, dtype=torch.float64).reshape(-1, 1, 1)


def solve(q: list[float], k: list[float], v: list[float], **rules: object) -> tuple[list[float], list[float]]:
    """Attention of one head of size 1; plain lists in and out."""
    out, lse = reference.attend(one_head(q), one_head(k), one_head(v), **{"scale": 1.0, **rules})
    return out.flatten().tolist(), lse.flatten().tolist()


LN_1_2_3 = [0.0, math.log(2), math.log(3)]
"""Keys whose weights are 1/6, 2/6, 3/6 for the query 1."""


def test_weights_are_the_softmax_and_lse_is_the_natural_logarithm_of_its_denominator() -> None:
    out, lse = solve([1.0], LN_1_2_3, [6.0, 12.0, 18.0])
    assert out == pytest.approx([(1 * 6 + 2 * 12 + 3 * 18) / 6])
    assert lse == pytest.approx([math.log(6)])


def test_scale_multiplies_the_dot_product() -> None:
    out, lse = solve([2.0], LN_1_2_3, [6.0, 12.0, 18.0], scale=0.5)
    assert out == pytest.approx([14.0])
    assert lse == pytest.approx([math.log(6)])


def test_default_scale_is_one_over_the_root_of_the_head_size() -> None:
    q, k = torch.full((1, 1, 4), 1.0), torch.tensor([[[0.0] * 4], [[math.log(3) / 2] * 4]])
    out, lse = reference.attend(q, k, one_head([0.0, 8.0]))
    # 4 * ln(3) / 2 / sqrt(4) = ln 3: weights 1/4 and 3/4.
    assert out.item() == pytest.approx(6.0)
    assert lse.item() == pytest.approx(math.log(4))


def test_causal_square_by_hand() -> None:
    out, lse = solve([1.0, 1.0, 1.0], LN_1_2_3, [6.0, 12.0, 18.0])
    assert out == pytest.approx([6.0, (6 + 24) / 3, 14.0])
    assert lse == pytest.approx([0.0, math.log(3), math.log(6)])


def test_not_causal_sees_every_key_from_every_row() -> None:
    out, _ = solve([1.0, 1.0], LN_1_2_3, [6.0, 12.0, 18.0], causal=False)
    assert out == pytest.approx([14.0, 14.0])


def test_mask_picture_of_the_document() -> None:
    # With q = 0 all visible keys weigh the same, and the value of key j is the unit vector j.
    q, k, v = torch.zeros(3, 1, 5), torch.randn(7, 1, 5), torch.eye(7)[:, None]
    out, lse = reference.attend(q, k, v)
    assert (out[:, 0] > 0).int().tolist() == DOCUMENT_MASK
    assert out[:, 0].sum(1).tolist() == pytest.approx([1.0] * 3)
    assert lse.exp().flatten().tolist() == pytest.approx([5.0, 6.0, 7.0])


@pytest.mark.parametrize(
    ("window", "picture"),
    [
        (1, [[0, 0, 0, 0, 1, 0, 0], [0, 0, 0, 0, 0, 1, 0], [0, 0, 0, 0, 0, 0, 1]]),
        (3, [[0, 0, 1, 1, 1, 0, 0], [0, 0, 0, 1, 1, 1, 0], [0, 0, 0, 0, 1, 1, 1]]),
        (6, [[1, 1, 1, 1, 1, 0, 0], [1, 1, 1, 1, 1, 1, 0], [0, 1, 1, 1, 1, 1, 1]]),
        (7, DOCUMENT_MASK),
    ],
)
def test_window_counts_visible_keys_with_the_own_one(window: int, picture: list[list[int]]) -> None:
    out, _ = reference.attend(
        torch.zeros(3, 1, 5), torch.randn(7, 1, 5), torch.eye(7)[:, None], window=window
    )
    assert (out[:, 0] > 0).int().tolist() == picture


def test_a_sink_enlarges_the_denominator_only() -> None:
    out, lse = solve([1.0], LN_1_2_3, [6.0, 12.0, 18.0], sinks=torch.tensor([math.log(6)]).double())
    assert out == pytest.approx([7.0])
    assert lse == pytest.approx([math.log(12)])


def test_a_sink_is_neither_scaled_nor_capped() -> None:
    sinks = torch.tensor([4.0], dtype=torch.float64)
    _, lse = solve([0.0], [0.0], [1.0], scale=0.1, softcap=2.0, sinks=sinks)
    assert lse == pytest.approx([math.log(1 + math.exp(4.0))])


def test_softcap_squeezes_the_scaled_logit() -> None:
    # 2 * tanh(x / 2) = ln 2 for x = 2 * atanh(ln 2 / 2).
    squeezed = 2 * math.atanh(math.log(2) / 2)
    out, lse = solve([2.0], [0.0, squeezed], [0.0, 3.0], scale=0.5, softcap=2.0)
    assert out == pytest.approx([2.0])
    assert lse == pytest.approx([math.log(3)])


def test_softcap_of_zero_is_none() -> None:
    assert solve([1.0], LN_1_2_3, [6.0, 12.0, 18.0], softcap=0.0)[0] == pytest.approx([14.0])


def test_alibi_lowers_distant_keys() -> None:
    # Slope ln 2: a key at distance 0, 1, 2 weighs 4/7, 2/7, 1/7.
    slopes = torch.tensor([math.log(2)]).double()
    out, lse = solve([0.0], [0.0] * 3, [7.0, 14.0, 28.0], alibi_slopes=slopes)
    assert out == pytest.approx([1 + 4 + 16])
    assert lse == pytest.approx([math.log(1.75)])


def test_alibi_measures_from_each_query_and_comes_after_the_cap() -> None:
    slopes = torch.tensor([math.log(2)]).double()
    out, lse = solve([0.0, 0.0], [0.0] * 3, [6.0, 6.0, 21.0], softcap=0.1, alibi_slopes=slopes)
    assert out == pytest.approx([6.0, (6 + 12 + 84) / 7])
    assert lse == pytest.approx([math.log(1.5), math.log(1.75)])


def test_each_head_has_its_own_sink_and_slope() -> None:
    q, k, v = torch.zeros(1, 2, 1), torch.zeros(2, 1, 1), one_head([1.0, 2.0])
    out, lse = reference.attend(
        q, k, v, sinks=torch.tensor([0.0, math.log(3)]), alibi_slopes=torch.tensor([0.0, math.log(2)])
    )
    assert lse.exp().flatten().tolist() == pytest.approx([3.0, 4.5])
    assert out.flatten().tolist() == pytest.approx([3 / 3, 2.5 / 4.5])


def test_rows_before_the_first_key_are_empty() -> None:
    out, lse = solve([1.0, 1.0, 1.0], [math.log(2)], [5.0])
    assert out == [0.0, 0.0, 5.0]
    assert lse == [-math.inf, -math.inf, pytest.approx(math.log(2))]


def test_an_empty_row_with_a_sink_has_the_sink_as_lse() -> None:
    out, lse = solve([1.0, 1.0], [0.0], [5.0], sinks=torch.tensor([1.25]))
    assert out == [0.0, pytest.approx(5 / (1 + math.exp(1.25)))]
    assert lse[0] == 1.25


@pytest.mark.parametrize("causal", [True, False])
def test_no_keys_at_all(causal: bool) -> None:
    out, lse = solve([1.0, 2.0], [], [], causal=causal)
    assert out == [0.0, 0.0]
    assert lse == [-math.inf, -math.inf]


def test_no_queries() -> None:
    out, lse = reference.attend(torch.zeros(0, 4, 8), torch.zeros(5, 2, 8), torch.zeros(5, 2, 6))
    assert out.shape == (0, 4, 6)
    assert lse.shape == (0, 4)


def random_qkv(len_q: int, len_k: int, heads: tuple[int, int], dim: int = 16) -> tuple[torch.Tensor, ...]:
    generator = torch.Generator().manual_seed(len_q * 1000 + len_k)
    shapes = [(len_q, heads[0], dim), (len_k, heads[1], dim), (len_k, heads[1], dim + 8)]
    return tuple(torch.randn(*shape, generator=generator, dtype=torch.float64) for shape in shapes)


def torch_attention(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, **options: object
) -> tuple[torch.Tensor, torch.Tensor]:
    """torch's attention in float64 for one sequence, and the LSE of its logits where `mask` allows."""
    group = q.shape[1] // k.shape[1]
    q, k, v = q.transpose(0, 1), *(x.transpose(0, 1).repeat_interleave(group, 0) for x in (k, v))
    out = F.scaled_dot_product_attention(q, k, v, **options).transpose(0, 1)
    logits = q @ k.transpose(1, 2) / math.sqrt(q.shape[2])
    mask = options.get("attn_mask")
    if mask is None:
        mask = torch.ones(logits.shape[1:], dtype=torch.bool).tril() if options.get("is_causal") else True
    logits = torch.where(torch.as_tensor(mask), logits, -math.inf)
    return out, torch.logsumexp(logits, 2).T


@pytest.mark.parametrize("heads", [(4, 4), (6, 2), (5, 1)])
def test_matches_torch_on_the_causal_square(heads: tuple[int, int]) -> None:
    q, k, v = random_qkv(33, 33, heads)
    out, lse = reference.attend(q, k, v)
    want, want_lse = torch_attention(q, k, v, is_causal=True)
    torch.testing.assert_close(out, want, atol=1e-12, rtol=0)
    torch.testing.assert_close(lse, want_lse, atol=1e-12, rtol=0)


@pytest.mark.parametrize("heads", [(4, 4), (6, 2), (7, 1)])
def test_matches_torch_without_a_mask(heads: tuple[int, int]) -> None:
    q, k, v = random_qkv(5, 33, heads)
    out, lse = reference.attend(q, k, v, causal=False)
    want, want_lse = torch_attention(q, k, v)
    torch.testing.assert_close(out, want, atol=1e-12, rtol=0)
    torch.testing.assert_close(lse, want_lse, atol=1e-12, rtol=0)


@pytest.mark.parametrize("window", [None, 1, 7, 40])
@pytest.mark.parametrize(("len_q", "len_k"), [(1, 33), (5, 33), (17, 18)])
def test_matches_torch_with_the_shifted_mask(len_q: int, len_k: int, window: int | None) -> None:
    q, k, v = random_qkv(len_q, len_k, (6, 2))
    out, lse = reference.attend(q, k, v, window=window)
    mask = visible(len_q, len_k, Rules(window=window))
    want, want_lse = torch_attention(q, k, v, attn_mask=mask)
    torch.testing.assert_close(out, want, atol=1e-12, rtol=0)
    torch.testing.assert_close(lse, want_lse, atol=1e-12, rtol=0)


def test_logits_beyond_the_range_of_exp_are_fine() -> None:
    out, lse = solve([1.0], [-60000.0, -60000.0 + math.log(3)], [0.0, 4.0])
    assert out == pytest.approx([3.0])
    assert lse == pytest.approx([-60000.0 + math.log(4)])
