"""Settings shared by all suites: the Hypothesis profiles.

`fast` is the default; `full` searches longer and is chosen by `pytest -m full` or by the environment
(`HYPOTHESIS_PROFILE=full`). This folder has no `__init__.py`, so pytest puts it on `sys.path` and
every suite can say `from support import ...`.
"""

import os

import pytest
from hypothesis import HealthCheck, settings

PROFILE_VARIABLE = "HYPOTHESIS_PROFILE"

_SLOW_DATA = [HealthCheck.too_slow, HealthCheck.data_too_large]

settings.register_profile("fast", max_examples=100, deadline=None, derandomize=True)
settings.register_profile("full", max_examples=2000, deadline=None, suppress_health_check=_SLOW_DATA)


def pytest_configure(config: pytest.Config) -> None:
    """Loads the profile that the command line or the environment asks for."""
    wants_full = config.getoption("markexpr", "") == "full"
    settings.load_profile(os.environ.get(PROFILE_VARIABLE) or ("full" if wants_full else "fast"))
