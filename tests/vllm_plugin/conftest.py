"""Fixtures of the vLLM suite."""

from support.greedy.truth import model_dir, truth

__all__ = ["model_dir", "truth"]
