from collections.abc import Callable

import pytest
from emulator_programs import PLAIN, PORTABLE, PROGRAMS, SANITIZED, Build, Compiler, Program


@pytest.fixture(scope="session")
def compiler(tmp_path_factory: pytest.TempPathFactory) -> Compiler:
    return Compiler(tmp_path_factory.mktemp("emulation"))


@pytest.fixture(params=[PLAIN, SANITIZED, PORTABLE], ids=lambda build: build.name)
def build(request: pytest.FixtureRequest) -> Build:
    chosen: Build = request.param
    return chosen


@pytest.fixture(params=["forward", "reversed"])
def order(request: pytest.FixtureRequest) -> str:
    chosen: str = request.param
    return chosen


def _program(compiler: Compiler, name: str, build: Build) -> Program:
    return Program(compiler.program([PROGRAMS / f"{name}.hip"], build))


def _program_fixture(name: str) -> Callable[[Compiler, Build], Program]:
    """A fixture of the program of that name, in each build."""

    @pytest.fixture
    def program(compiler: Compiler, build: Build) -> Program:
        return _program(compiler, name, build)

    return program


indices = _program_fixture("indices")
barriers = _program_fixture("barriers")
exchanges = _program_fixture("exchanges")
lds = _program_fixture("lds")
launches = _program_fixture("launches")
broken_rules = _program_fixture("broken_rules")


@pytest.fixture
def sanitized_broken_rules(compiler: Compiler) -> Program:
    return _program(compiler, "broken_rules", SANITIZED)
