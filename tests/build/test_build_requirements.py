import pytest
from build_helpers import Refusal

from build_support.requirements import PYBIND11_MINIMUM, SETUPTOOLS_MINIMUM, require_version


@pytest.mark.parametrize("found", ["77", "77.0.3", "84.2.1", "100.0.dev1"])
def test_a_new_enough_version_passes(found: str) -> None:
    require_version("setuptools", found, SETUPTOOLS_MINIMUM)


def test_an_old_version_is_refused(refusal: Refusal) -> None:
    assert refusal(lambda: require_version("setuptools", "65.5.0", SETUPTOOLS_MINIMUM)) == (
        "the build needs setuptools 77.0 or newer, but version 65.5.0 is installed: "
        'run `pip install "setuptools>=77.0"` and build again.'
    )


def test_an_absent_package_is_refused(refusal: Refusal) -> None:
    assert refusal(lambda: require_version("pybind11", None, PYBIND11_MINIMUM)) == (
        "the build needs pybind11 2.13 or newer, but it is not installed: "
        'run `pip install "pybind11>=2.13"` and build again.'
    )


def test_a_minor_version_counts(refusal: Refusal) -> None:
    require_version("pybind11", "2.13.6", PYBIND11_MINIMUM)
    assert "version 2.9.2 is installed" in refusal(
        lambda: require_version("pybind11", "2.9.2", PYBIND11_MINIMUM)
    )
