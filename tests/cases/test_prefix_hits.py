"""Cases 37 to 39: attention behind a prefix cache, and chunks of a prompt."""

import pytest
import torch
from support.backends import Backend
from support.check import assert_lse, assert_output, check_prefill, run
from support.paging import Paged, page
from support.problem import Problem, Rules, cu_seqlens, make_problem

from hygon_backend.kv_layout import KVLayout

layouts = pytest.mark.parametrize("layout", list(KVLayout), ids=str)

RULES = {
    "plain": Rules(),
    "window": Rules(window=40),
    "alibi": Rules(alibi_slopes=torch.tensor([0.5, 0.1, 0.02, 0.0])),
    "sinks and softcap": Rules(sinks=torch.tensor([0.5, -1.0, 2.0, 0.0]), softcap=30.0),
}
rules_of_all_kinds = pytest.mark.parametrize("rules", RULES.values(), ids=RULES.keys())


@layouts
@rules_of_all_kinds
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_case_37_mixed_hits_and_misses_in_one_batch(
    backend: Backend, layout: KVLayout, rules: Rules, dtype: torch.dtype
) -> None:
    prefix, extend = [400, 0, 17, 0, 64, 1], [3, 30, 1, 1, 64, 16]
    lengths = [p + e for p, e in zip(prefix, extend, strict=True)]
    problem = make_problem(extend, lengths, dtype=dtype, rules=rules, sharpness=3)
    check_prefill(backend, problem, page(problem, layout), validate=True)


@pytest.mark.parametrize("page_size", [1, 16])
def test_case_37_requests_of_the_document(backend: Backend, page_size: int) -> None:
    """Source document, section 3.3: prefixes 4, 0, 5 and new tokens 2, 3, 1."""
    problem = make_problem([2, 3, 1], [6, 3, 6], heads=(4, 2))
    assert problem.cu_seqlens_q.tolist() == [0, 2, 5, 6]
    assert cu_seqlens(problem.kv_lens).tolist() == [0, 6, 9, 15]
    check_prefill(backend, problem, page(problem, block_size=page_size), validate=True)


def test_case_37_document_slots(backend: Backend) -> None:
    """The same requests at the very slots that the document lists, page size 1."""
    slots = [[108, 109, 110, 111, 42, 43], [201, 202, 203], [80, 81, 82, 83, 84, 99]]
    problem = make_problem([2, 3, 1], [6, 3, 6], heads=(4, 2))
    caches = [problem.q.new_full((256, 1, 2, 64), float("nan")) for _ in range(2)]
    table = torch.full((3, 6), -1, dtype=torch.int32)
    for row, ids in enumerate(slots):
        table[row, : len(ids)] = torch.tensor(ids)
        for cache, dense in zip(caches, (problem.k, problem.v), strict=True):
            cache[ids, 0] = dense[row]
    seq_lens = torch.tensor([6, 3, 6], dtype=torch.int32)
    check_prefill(backend, problem, Paged(*caches, table, seq_lens, KVLayout.BSHD, 1), validate=True)


@layouts
@rules_of_all_kinds
@pytest.mark.parametrize("chunk", [1, 7, 64, 100])
def test_case_38_chunks_equal_the_whole(backend: Backend, layout: KVLayout, rules: Rules, chunk: int) -> None:
    """Chunk by chunk, `seq_lens` grows with the cache while the tail still holds poison."""
    total = 150
    whole = make_problem([total], [total], rules=rules, sharpness=3)
    paged = page(whole, layout)
    outs, lses = [], []
    for start in range(0, total, chunk):
        end = min(start + chunk, total)
        part = Problem(whole.q[start:end], [end - start], [whole.k[0][:end]], [whole.v[0][:end]], rules)
        so_far = page(part, layout, seed=end)
        out, lse = run(backend, "prefix_prefill", part, so_far, return_lse=True)
        outs.append(out)
        lses.append(lse)
    assert_output(torch.cat(outs), whole)
    assert_lse(torch.cat(lses), whole)
    check_prefill(backend, whole, paged)


@layouts
@rules_of_all_kinds
def test_case_39_two_requests_share_the_pages_of_one_prefix(
    backend: Backend, layout: KVLayout, rules: Rules
) -> None:
    """[P, P]: both rows name the same prefix pages, and each goes on in a page of its own."""
    prefix, new, block_size = 64, [5, 9], 16
    both = make_problem(new, [prefix + n for n in new], rules=rules)
    shared = Problem(
        both.q,
        both.q_lens,
        [both.k[0], torch.cat([both.k[0][:prefix], both.k[1][prefix:]])],
        [both.v[0], torch.cat([both.v[0][:prefix], both.v[1][prefix:]])],
        rules,
    )
    paged = page(shared, layout, block_size)
    used = prefix // block_size
    # The second row's own copies of the prefix turn to poison: only the shared pages are left.
    for cache in (paged.k_cache, paged.v_cache):
        cache[paged.block_table[1, :used].long()] = float("nan")
    paged.block_table[1, :used] = paged.block_table[0, :used]
    check_prefill(backend, shared, paged, validate=True)


def test_case_39_the_same_request_twice_gives_the_same_answer_twice(backend: Backend) -> None:
    one = make_problem([12], [75], dtype=torch.bfloat16)
    twice = Problem(torch.cat([one.q, one.q]), [12, 12], one.k * 2, one.v * 2, one.rules)
    paged = page(one)
    aliased = Paged(
        paged.k_cache,
        paged.v_cache,
        paged.block_table.repeat(2, 1),
        paged.seq_lens.repeat(2),
        paged.layout,
        paged.block_size,
    )
    check_prefill(backend, twice, aliased)
    out, _ = run(backend, "prefix_prefill", twice, aliased)
    assert torch.equal(out[:12], out[12:])
