"""Cases 30 to 33: the shifted causal mask and the sliding window."""

import pytest
import torch
from support.backends import Backend
from support.check import check_decode, check_prefill, run
from support.paging import page
from support.problem import Problem, Rules, make_problem

from hygon_backend.kv_layout import KVLayout

# Source document, section 3.2: 3 queries behind a prefix of 4.
DOCUMENT_MASK = [
    [1, 1, 1, 1, 1, 0, 0],
    [1, 1, 1, 1, 1, 1, 0],
    [1, 1, 1, 1, 1, 1, 1],
]


def visible_keys(
    backend: Backend, operator: str, len_q: int, len_k: int, *, return_lse: bool = True, **rules: object
) -> list[list[int]]:
    """What each query sees: with q = 0 and unit vectors as values, the outputs above 0."""
    problem = Problem(
        q=torch.zeros(len_q, 1, 64),
        q_lens=[len_q],
        k=[torch.randn(len_k, 1, 64)],
        v=[torch.eye(len_k)[:, None]],
        rules=Rules(**rules),
    )
    out, _ = run(backend, operator, problem, page(problem, block_size=2), return_lse=return_lse)
    return (out[:, 0] > 0).int().tolist()


operators = pytest.mark.parametrize("operator", ["paged_decode", "prefix_prefill"])
with_lse = pytest.mark.parametrize("return_lse", [True, False], ids=["lse", "no lse"])


@operators
@with_lse
def test_case_31_mask_picture_of_the_document(backend: Backend, operator: str, return_lse: bool) -> None:
    assert visible_keys(backend, operator, 3, 7, return_lse=return_lse) == DOCUMENT_MASK


@operators
@with_lse
@pytest.mark.parametrize("window", range(1, 9))
def test_case_30_window_counts_keys_with_the_own_one(
    backend: Backend, operator: str, return_lse: bool, window: int
) -> None:
    picture = [[int(i + 4 - window < j <= i + 4) for j in range(7)] for i in range(3)]
    assert visible_keys(backend, operator, 3, 7, return_lse=return_lse, window=window) == picture


@with_lse
def test_case_31_not_causal_sees_everything(backend: Backend, return_lse: bool) -> None:
    seen = visible_keys(backend, "prefix_prefill", 3, 7, return_lse=return_lse, causal=False)
    assert seen == [[1] * 7] * 3


@pytest.mark.parametrize("window", [1, 15, 16, 17, 63, 64, 65, 100, 1000])
def test_case_30_windows_at_page_limits_in_prefill_and_decode(backend: Backend, window: int) -> None:
    """The decode of a token equals its row in a prefill of the whole, under the same window."""
    lengths = [90, 64, 17, 200]
    whole = make_problem(lengths, lengths, rules=Rules(window=window), sharpness=3)
    check_prefill(backend, whole, page(whole))
    last = torch.tensor(lengths).cumsum(0) - 1
    one = Problem(whole.q[last], [1] * 4, whole.k, whole.v, whole.rules)
    check_decode(backend, one, page(one))
    for part in (1, 6):
        torch.testing.assert_close(one.exact.out, whole.exact.out[last])
        rows = (last[:, None] - part + 1 + torch.arange(part)).flatten()
        several = Problem(whole.q[rows], [part] * 4, whole.k, whole.v, whole.rules)
        check_decode(backend, several, page(several), partition_size=32)


@pytest.mark.parametrize("window", [1, 64, 700, 2000])
@pytest.mark.parametrize("rules", [{}, {"softcap": 20.0}], ids=["plain", "softcap"])
def test_case_30_windows_over_many_query_tiles(
    backend: Backend, window: int, rules: dict[str, float]
) -> None:
    problem = make_problem(
        [1100, 3], [1300, 600], heads=(2, 1), rules=Rules(window=window, **rules), sharpness=3
    )
    check_prefill(backend, problem, page(problem, block_size=64))


@pytest.mark.parametrize(("len_q", "len_k"), [(3, 7), (64, 65), (17, 300), (1, 999), (513, 900), (511, 2000)])
@pytest.mark.parametrize("causal", [True, False])
def test_case_31_bottom_right_mask_when_keys_outnumber_queries(
    backend: Backend, len_q: int, len_k: int, causal: bool
) -> None:
    problem = make_problem([len_q], [len_k], heads=(2, 1), rules=Rules(causal=causal), sharpness=3)
    check_prefill(backend, problem, page(problem))


@pytest.mark.parametrize("length", [1, 2, 63, 64, 65, 512, 513, 1030])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_case_31_square_mask(backend: Backend, length: int, dtype: torch.dtype) -> None:
    problem = make_problem([length], [length], dtype=dtype, sharpness=3)
    check_prefill(backend, problem, page(problem, block_size=64))


def test_case_31_logits_split_by_size_alone(backend: Backend) -> None:
    """Many heads and keys: the operator has to split the keys though nobody asked it to."""
    problem = make_problem([520], [1500], heads=(48, 1), head_size=16, sharpness=3)
    check_prefill(backend, problem, page(problem, block_size=64))


@operators
@pytest.mark.parametrize("window", [127, 128, 129])
def test_case_32_window_128_one_query_256_keys(backend: Backend, operator: str, window: int) -> None:
    problem = make_problem([1], [256], rules=Rules(window=window))
    paged = page(problem, block_size=64)
    (check_decode if operator == "paged_decode" else check_prefill)(backend, problem, paged)


@pytest.mark.parametrize("layout", list(KVLayout), ids=str)
@pytest.mark.parametrize("heads", [(8, 2), (7, 1), (6, 6)])
def test_case_33_window_with_grouped_heads(
    backend: Backend, layout: KVLayout, heads: tuple[int, int]
) -> None:
    rules = Rules(window=20)
    problem = make_problem(
        [5, 5, 5], [100, 41, 7], heads=heads, dtype=torch.bfloat16, rules=rules, sharpness=4
    )
    paged = page(problem, layout)
    check_decode(backend, problem, paged)
    check_prefill(backend, problem, paged)
