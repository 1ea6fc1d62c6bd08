"""Settings shared by all suites: the Hypothesis profile.

This folder has no `__init__.py`, so pytest puts it on `sys.path` and every suite can say
`from support import ...`.
"""

from hypothesis import settings

settings.register_profile("fast", max_examples=100, deadline=None, derandomize=True)
settings.load_profile("fast")
