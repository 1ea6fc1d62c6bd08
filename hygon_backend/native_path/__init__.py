"""The operators as calls of compiled kernels: one module an operator, each with `supports` and `run`.

Tensors are handed over as addresses and strides, so nothing is copied. No call waits for the device,
except that `gather_kv` must know the size of its result.
"""
