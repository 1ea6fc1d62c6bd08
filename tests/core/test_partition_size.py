"""Who decides the partition size: the environment, then the caller, then the operator."""

from typing import Any

import pytest
import torch
from support.calls import CALLS

from hygon_backend import ops
from hygon_backend.calls.prefill_call import PrefillCall
from hygon_backend.errors import InvalidArgumentError
from hygon_backend.torch_path import attention
from hygon_backend.validation import PARTITION_VARIABLE, partition_size

OPERATORS = ["paged_decode", "prefix_prefill"]


def test_the_variable_is_the_vendors() -> None:
    assert PARTITION_VARIABLE == "PA_PARTITION_SIZE"


@pytest.mark.parametrize(
    ("requested", "text", "chosen"),
    [
        (None, None, None),
        (64, None, 64),
        (1, None, 1),
        (None, "", None),
        (64, "", 64),
        (64, "  ", 64),
        (64, "0", 64),
        (None, "0", None),
        (None, "256", 256),
        (64, "256", 256),
        (64, " 256\n", 256),
    ],
)
def test_choice(requested: int | None, text: str | None, chosen: int | None) -> None:
    environment = {} if text is None else {"PA_PARTITION_SIZE": text}
    assert partition_size(requested, environment) == chosen


@pytest.mark.parametrize("text", ["abc", "-1", "1.5", "0x40", "1e3", "64 64"])
def test_a_bad_variable_is_refused_by_name(text: str) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        partition_size(64, {"PA_PARTITION_SIZE": text})
    assert str(caught.value) == (
        f"PA_PARTITION_SIZE is {text!r}, but must be a whole number of tokens, at least 1"
    )


@pytest.mark.parametrize("operator", OPERATORS)
def test_operators_read_the_variable_at_every_call(operator: str, monkeypatch: pytest.MonkeyPatch) -> None:
    used: list[int | None] = []
    run = getattr(attention, operator)

    def spy(*arguments: Any) -> None:  # noqa: ANN401
        last = arguments[-1]
        used.append(last.partition_size if isinstance(last, PrefillCall) else last)
        run(*arguments)

    monkeypatch.setattr(attention, operator, spy)
    call = {**CALLS[operator](), "partition_size": 5}
    monkeypatch.delenv("PA_PARTITION_SIZE", raising=False)
    plain, _ = getattr(ops, operator)(**call)
    plain = plain.clone()
    monkeypatch.setenv("PA_PARTITION_SIZE", "2")
    split, _ = getattr(ops, operator)(**call)
    assert used == [5, 2]
    torch.testing.assert_close(plain, split)
    monkeypatch.setenv("PA_PARTITION_SIZE", "many")
    with pytest.raises(InvalidArgumentError, match="PA_PARTITION_SIZE is 'many'"):
        getattr(ops, operator)(**call)
