"""Call counts: one for each call that was served, none for a call that was refused."""

from collections.abc import Iterator

import pytest
from support.calls import CALLS

from hygon_backend import counters, ops
from hygon_backend.errors import InvalidArgumentError


@pytest.fixture(autouse=True)
def fresh_counts() -> Iterator[None]:
    counters.reset()
    yield
    counters.reset()


@pytest.mark.parametrize("operator", CALLS)
def test_every_operator_counts_its_calls(operator: str) -> None:
    for _ in range(3):
        getattr(ops, operator)(**CALLS[operator]())
    assert counters.snapshot() == {f"{operator}[torch]": 3}


def test_counts_are_sorted_and_forgotten_on_reset() -> None:
    for operator in ("write_kv", "merge_states", "copy_blocks"):
        getattr(ops, operator)(**CALLS[operator]())
    assert list(counters.snapshot()) == ["copy_blocks[torch]", "merge_states[torch]", "write_kv[torch]"]
    counters.reset()
    assert counters.snapshot() == {}


def test_a_snapshot_is_a_copy() -> None:
    counters.record("paged_decode", "host")
    snapshot = counters.snapshot()
    snapshot["paged_decode[host]"] = 99
    assert counters.snapshot() == {"paged_decode[host]": 1}


def test_a_refused_call_is_not_counted() -> None:
    with pytest.raises(InvalidArgumentError):
        ops.paged_decode(**{**CALLS["paged_decode"](), "window": 0})
    assert counters.snapshot() == {}
