"""The operators composed from PyTorch operations: the default where no compiled kernel serves.

Vectorised (no Python loop over tokens or heads) and correct on any torch device, but it reads
`seq_lens` on the host, so it cannot be captured into a graph.
"""
