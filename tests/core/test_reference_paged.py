"""The paged half of `reference`: reading, writing, copying, and the document's worked example."""

import math

import pytest
import torch
from support.bits import same_bits
from support.paging import page, poisoned
from support.problem import cu_seqlens, make_problem

from hygon_backend import reference
from hygon_backend.kv_layout import CacheGeometry, KVLayout

LAYOUTS = list(KVLayout)


class GuardedRow:
    """A block-table row that allows `used` entries to be read and fails the test beyond them."""

    def __init__(self, ids: list[int]) -> None:
        self.ids = ids
        self.read: set[int] = set()

    def __getitem__(self, index: int) -> int:
        assert index < len(self.ids), f"block-table entry {index} is past the last page"
        self.read.add(index)
        return self.ids[index]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("length", [0, 1, 3, 4, 5, 8, 13])
def test_read_sequence_reads_its_tokens_and_not_one_entry_or_byte_more(layout: KVLayout, length: int) -> None:
    problem = make_problem([1], [length], heads=(2, 2), head_size=8, head_size_v=12, seed=length)
    paged = page(problem, layout, 4)
    pages = -(-length // 4)
    for part, cache, dense in (("key", paged.k_cache, problem.k), ("value", paged.v_cache, problem.v)):
        row = GuardedRow(paged.block_table[0, :pages].tolist())
        tokens = reference.read_sequence(cache, layout, part, row, length)
        assert tokens.dtype is torch.float64
        assert torch.equal(tokens, dense[0].double())
        assert row.read == set(range(pages))


def test_read_sequence_multiplies_by_the_scale_of_each_head() -> None:
    cache = torch.ones(1, 2, 3, 8)
    row = torch.tensor([0])
    tokens = reference.read_sequence(cache, "bshd", "key", row, 2, torch.tensor([0.5, 2.0, 4.0]))
    assert tokens[1, :, 7].tolist() == [0.5, 2.0, 4.0]
    assert reference.read_sequence(cache, "bshd", "key", row, 1, 0.25)[0, 2, 0] == 0.25
    assert reference.read_sequence(cache, "bshd", "key", row, 1, torch.tensor([3.0]))[0, 1, 5] == 3.0


@pytest.mark.parametrize("layout", LAYOUTS)
def test_prefill_and_decode_are_attend_on_what_the_pages_hold(layout: KVLayout) -> None:
    problem = make_problem([2, 2, 2], [9, 2, 1], cache_dtype=torch.float8_e4m3fn, k_scale=0.5, v_scale=2.0)
    paged = page(problem, layout, 4)
    cache = (paged.k_cache, paged.v_cache, paged.block_table)
    options = {"layout": layout, "k_scale": 0.5, "v_scale": 2.0}
    out, lse = reference.prefix_prefill(problem.q, *cache, problem.cu_seqlens_q, paged.seq_lens, **options)
    assert torch.equal(out, problem.exact.out)
    assert torch.equal(lse, problem.exact.lse)
    out, lse = reference.paged_decode(problem.q.unflatten(0, (3, 2)), *cache, paged.seq_lens, **options)
    assert torch.equal(out, problem.exact.out.unflatten(0, (3, 2)))
    assert torch.equal(lse, problem.exact.lse.unflatten(0, (3, 2)))


# The worked example of the source document, section 3.3: three requests, page size 1.
EXTEND_LENS = [2, 3, 1]
PREFIX_LENS = [4, 0, 5]
SLOTS = [
    [108, 109, 110, 111, 42, 43],
    [201, 202, 203],
    [80, 81, 82, 83, 84, 99],
]


def test_document_example_index_arrays() -> None:
    seq_lens = [p + e for p, e in zip(PREFIX_LENS, EXTEND_LENS, strict=True)]
    assert seq_lens == [6, 3, 6] == [len(slots) for slots in SLOTS]
    qo_indptr, kv_indptr = cu_seqlens(EXTEND_LENS), cu_seqlens(seq_lens)
    assert qo_indptr.tolist() == [0, 2, 5, 6]
    assert kv_indptr.tolist() == [0, 6, 9, 15]
    assert qo_indptr[:-1].tolist() == [0, 2, 5]  # extend_start_loc
    kv_indices = [slot for slots in SLOTS for slot in slots]
    assert kv_indices == [108, 109, 110, 111, 42, 43, 201, 202, 203, 80, 81, 82, 83, 84, 99]


def test_document_example_attention() -> None:
    generator = torch.Generator().manual_seed(33)
    q = torch.randn(6, 4, 8, generator=generator)
    k_cache, v_cache = (torch.full((256, 1, 2, 8), math.nan) for _ in range(2))
    table = torch.full((3, 6), -1)
    for row, slots in enumerate(SLOTS):
        table[row, : len(slots)] = torch.tensor(slots)
        k_cache[slots] = torch.randn(len(slots), 1, 2, 8, generator=generator)
        v_cache[slots] = torch.randn(len(slots), 1, 2, 8, generator=generator)

    out, lse = reference.prefix_prefill(
        q, k_cache, v_cache, table, torch.tensor([0, 2, 5, 6]), torch.tensor([6, 3, 6])
    )
    for slots, (start, stop) in zip(SLOTS, [(0, 2), (2, 5), (5, 6)], strict=True):
        # Dense attention with the request's own square mask, of which the last rows are the new tokens.
        want, want_lse = dense_causal(q[start:stop], k_cache[slots, 0], v_cache[slots, 0])
        torch.testing.assert_close(out[start:stop], want, atol=1e-12, rtol=0)
        torch.testing.assert_close(lse[start:stop], want_lse, atol=1e-12, rtol=0)


def dense_causal(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Plain softmax attention, key by key, of the last `len(q)` tokens of one sequence."""
    out = torch.zeros(*q.shape, dtype=torch.float64)
    lse = torch.zeros(*q.shape[:2], dtype=torch.float64)
    group = q.shape[1] // k.shape[1]
    for i in range(len(q)):
        position = len(k) - len(q) + i
        for head in range(q.shape[1]):
            keys, values = (x[: position + 1, head // group].double() for x in (k, v))
            weights = torch.exp(keys @ q[i, head].double() / math.sqrt(q.shape[2]))
            out[i, head] = (weights[:, None] * values).sum(0) / weights.sum()
            lse[i, head] = torch.log(weights.sum())
    return out, lse


@pytest.mark.parametrize("layout", LAYOUTS)
def test_write_kv_stores_each_token_at_its_slot_and_touches_nothing_else(layout: KVLayout) -> None:
    problem = make_problem([1], [5], heads=(2, 2), head_size=8, head_size_v=12)
    expected = page(problem, layout, 4)
    k_cache, v_cache = (torch.empty_like(x) for x in (expected.k_cache, expected.v_cache))
    for cache in (k_cache, v_cache):
        cache.copy_(poisoned(tuple(cache.shape), cache.dtype))
    first, second = expected.block_table[0, :2].tolist()
    slots = torch.tensor([first * 4, -1, first * 4 + 1, first * 4 + 2, first * 4 + 3, second * 4, -7])
    k, v = (torch.cat([x[0][:1], x[0][:1] + 9, x[0][1:], x[0][:1]]) for x in (problem.k, problem.v))
    reference.write_kv(k, v, k_cache, v_cache, slots, layout=layout)
    assert same_bits(k_cache, expected.k_cache)
    assert same_bits(v_cache, expected.v_cache)


def test_write_kv_divides_by_the_scale() -> None:
    k_cache, v_cache = CacheGeometry(1, 1, 2, 8, 8).empty("bshd", torch.float32)
    ones = torch.ones(1, 2, 8)
    reference.write_kv(
        ones, ones, k_cache, v_cache, torch.tensor([0]), k_scale=torch.tensor([0.5, 4.0]), v_scale=0.25
    )
    assert k_cache[0, 0, :, 3].tolist() == [2.0, 0.25]
    assert v_cache[0, 0, :, 3].tolist() == [4.0, 4.0]


def test_copy_blocks_copies_whole_pages() -> None:
    cache = torch.arange(24).reshape(4, 2, 3)
    before = cache.clone()
    reference.copy_blocks(cache, torch.tensor([[3, 0], [1, 2]]))
    assert torch.equal(cache, before[[3, 1, 1, 3]])


def test_merge_states_by_hand() -> None:
    # Weights e^ln(1) : e^ln(3) = 1/4 : 3/4.
    out, lse = reference.merge_states(
        torch.tensor([[[4.0]]]), torch.tensor([[0.0]]), torch.tensor([[[8.0]]]), torch.tensor([[math.log(3)]])
    )
    assert out.item() == pytest.approx(7.0)
    assert lse.item() == pytest.approx(math.log(4), abs=1e-7)


def test_merge_states_ignores_an_empty_side_whatever_it_holds() -> None:
    nan, empty = torch.full((1, 1, 2), math.nan), torch.full((1, 1), -math.inf)
    some, lse_some = torch.tensor([[[1.0, 2.0]]]), torch.tensor([[0.5]])
    for sides in ((nan, empty, some, lse_some), (some, lse_some, nan, empty)):
        out, lse = reference.merge_states(*sides)
        assert out.tolist() == [[[1.0, 2.0]]]
        assert lse.item() == 0.5
    out, lse = reference.merge_states(nan, empty, nan, empty)
    assert out.tolist() == [[[0.0, 0.0]]]
    assert lse.item() == -math.inf
