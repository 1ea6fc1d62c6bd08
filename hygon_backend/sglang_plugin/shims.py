"""Stand-ins for what stock SGLang imports but a machine without a card lacks: the one place for them."""

from __future__ import annotations


def install() -> None:
    """Does nothing yet."""
