"""Counts operator calls, so that a user (or a demo) can prove which attention code ran.

A count is one dictionary update per operator call. Counts belong to the process: an engine that
runs its worker in another process must read them there.
"""

from __future__ import annotations

from collections import Counter

_calls: Counter[str] = Counter()


def record(operator: str, path: str) -> None:
    """Counts one call of `operator` served by `path` ("torch", "native" or "emulated")."""
    _calls[f"{operator}[{path}]"] += 1


def snapshot() -> dict[str, int]:
    """Calls so far, as `{"paged_decode[torch]": 12, ...}`, sorted by name."""
    return dict(sorted(_calls.items()))


def reset() -> None:
    """Forgets all counts."""
    _calls.clear()
