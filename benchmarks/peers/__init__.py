"""Implementations of paged decode that are measured side by side, one module each."""
