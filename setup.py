"""Builds the extension module `hygon_backend._C`; everything else is declared in pyproject.toml."""

import sys
from pathlib import Path

import setuptools

# A build front end runs this file without its folder on the import path.
sys.path.insert(0, str(Path(__file__).resolve().parent))

from build_support.command import BuildExtension
from build_support.requirements import SETUPTOOLS_MINIMUM, require_version

# Checked first: an older setuptools rejects pyproject.toml with a page of schema errors.
require_version("setuptools", setuptools.__version__, SETUPTOOLS_MINIMUM)

setuptools.setup(
    ext_modules=[
        setuptools.Extension(
            "hygon_backend._C",
            # Sorted, so that a build does not depend on the order of a directory.
            sources=sorted(
                str(path)
                for pattern in ("bindings*.cpp", "cache/*.cpp")
                for path in Path("csrc").glob(pattern)
            ),
            language="c++",
        )
    ],
    cmdclass={"build_ext": BuildExtension},
)
