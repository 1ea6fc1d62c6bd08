"""Settings shared by all suites: the Hypothesis profile, and which suites belong to which environment.

This folder has no `__init__.py`, so pytest puts it on `sys.path` and every suite can say
`from support import ...`.
"""

from importlib.util import find_spec
from pathlib import Path

import pytest
from hypothesis import settings

settings.register_profile("fast", max_examples=100, deadline=None, derandomize=True)
settings.load_profile("fast")

SGLANG_SUITE = Path(__file__).parent / "sglang_plugin"
HAS_SGLANG = find_spec("sglang") is not None


class SuiteOfAnotherEnvironment(pytest.Module):
    """A test file that is not even imported: its engine is not installed here, or it runs elsewhere."""

    def collect(self) -> list[pytest.Item]:
        return []


def pytest_pycollect_makemodule(module_path: Path, parent: pytest.Collector) -> pytest.Module | None:
    """Leaves SGLang's suite to the environment that has SGLang, which runs nothing else."""
    if module_path.is_relative_to(SGLANG_SUITE) == HAS_SGLANG:
        return None
    return SuiteOfAnotherEnvironment.from_parent(parent, path=module_path)
