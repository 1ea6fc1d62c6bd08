"""Helpers of the engine suites: the model, the prompts and what transformers makes of them."""
