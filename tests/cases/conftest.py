"""Fixtures of the cases: every test that takes `backend` runs on each implementation."""

from support.fixtures import backend, one_torch_thread

__all__ = ["backend", "one_torch_thread"]
