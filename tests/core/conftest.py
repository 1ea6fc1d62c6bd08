"""Fixtures of the engine-free tests."""

from support.fixtures import one_torch_thread

__all__ = ["one_torch_thread"]
