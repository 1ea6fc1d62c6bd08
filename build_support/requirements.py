"""Versions of the Python packages that the build itself needs.

pip installs them in an isolated build, but `--no-build-isolation` takes whatever is there.
"""

import re

from build_support.errors import BuildError

SETUPTOOLS_MINIMUM = (77, 0)
PYBIND11_MINIMUM = (2, 13)


def require_version(package: str, found: str | None, minimum: tuple[int, int]) -> None:
    """Raises BuildError unless version `found` of `package` (None: not installed) is new enough."""
    if found is not None and _major_minor(found) >= minimum:
        return
    needed = ".".join(map(str, minimum))
    state = f"version {found} is installed" if found else "it is not installed"
    raise BuildError(
        f"the build needs {package} {needed} or newer, but {state}: "
        f'run `pip install "{package}>={needed}"` and build again.'
    )


def _major_minor(version: str) -> tuple[int, int]:
    major, minor = [*map(int, re.findall(r"\d+", version)), 0, 0][:2]
    return major, minor
