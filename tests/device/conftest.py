"""Tests that only a card can run: collected where there is one, so that nothing shows up as skipped."""

from __future__ import annotations

import torch
from support.fixtures import one_torch_thread

__all__ = ["one_torch_thread"]

collect_ignore_glob = [] if torch.cuda.is_available() else ["test_*.py"]
