"""Stand-ins for what stock SGLang imports but a machine without a card lacks: the one place for them.

| what | why | how | which versions | when it can go |
|---|---|---|---|---|
| `torchvision` | `sglang.srt.configs` imports the configurations of image models, and those import torchvision, whatever the model; PyPI's torchvision is built for CUDA and cannot be imported beside a CPU torch | modules without content, found only if no torchvision is installed; using anything from them raises | 0.5.23 | when SGLang imports torchvision for image models only |
"""  # noqa: E501 (a table row cannot be broken)

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType
from typing import NoReturn

from hygon_backend.errors import UnsupportedError

ABSENT_PACKAGES = ("torchvision",)


def install() -> None:
    """Puts the stand-ins in place whose packages are not installed; harmless when repeated."""
    missing = [name for name in ABSENT_PACKAGES if find_spec(name) is None]
    if missing:
        _let_transformers_look()
        sys.meta_path.append(StandInFinder(missing))


def _let_transformers_look() -> None:
    """Has transformers ask for torchvision while it is still absent; it remembers the answer."""
    from transformers.utils import import_utils

    import_utils.is_torchvision_available()
    import_utils.is_torchvision_v2_available()


class StandIn:
    """What a stand-in module gives for every name: it may be imported, and raises when it is used."""

    def __init__(self, name: str) -> None:
        self.__name__ = name

    def __call__(self, *_: object, **__: object) -> NoReturn:
        """Refuses."""
        self._refuse()

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):  # what Python itself looks for, where absence is an answer
            raise AttributeError(name)
        self._refuse()

    def _refuse(self) -> NoReturn:
        package = self.__name__.partition(".")[0]
        raise UnsupportedError(
            f"{self.__name__} was used, but {package} is not installed: hygon_backend lets SGLang import it, "
            f"since text models do without; install {package} for this torch to use what needs it"
        )


class StandInModule(ModuleType):
    """A package without content."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.__path__: list[str] = []

    def __getattr__(self, name: str) -> StandIn:
        if name.startswith("__"):
            raise AttributeError(name)
        return StandIn(f"{self.__name__}.{name}")


class StandInFinder(MetaPathFinder, Loader):
    """Finds packages that nothing else found, and all modules in them."""

    def __init__(self, packages: Sequence[str]) -> None:
        self.packages = tuple(packages)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """A spec for our packages, None for all others."""
        if fullname.partition(".")[0] in self.packages:
            return ModuleSpec(fullname, self, is_package=True)
        return None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """An empty module."""
        return StandInModule(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Nothing to run."""
