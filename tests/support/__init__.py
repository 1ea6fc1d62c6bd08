"""Helpers of the operator tests: problems in dense form, paged pools full of poison, error bounds."""
