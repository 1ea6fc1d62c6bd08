"""Draws calls of one operator on one implementation, without pytest.

Usage: python tests/support/drawn.py emulation ragged_prefill 300 SEED
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from cases.test_differential import check_attention

from support.backends import BACKENDS
from support.draws import attention_calls
from support.problem import default_dtype


def main(name: str, operator: str, count: str, first: str) -> None:
    """Draws `count` calls from seed `first` and checks each."""
    torch.set_num_threads(1)
    backend = BACKENDS[name]
    default_dtype.set(backend.dtype)

    @seed(int(first))
    @settings(max_examples=int(count), deadline=None, suppress_health_check=list(HealthCheck), database=None)
    @given(data=st.data())
    def drawn(data: st.DataObject) -> None:
        check_attention(backend, operator, data.draw(attention_calls(operator, for_kernels=True)))

    drawn()
    print(f"{operator} on {name}: {count} drawn from seed {first}: passed")


if __name__ == "__main__":
    main(*sys.argv[1:])
