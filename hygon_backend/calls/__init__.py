"""What an operator call is made of, checked and bundled: neutral between PyTorch and the kernels."""
