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


@pytest.fixture
def indices(compiler: Compiler, build: Build) -> Program:
    return _program(compiler, "indices", build)


@pytest.fixture
def barriers(compiler: Compiler, build: Build) -> Program:
    return _program(compiler, "barriers", build)


@pytest.fixture
def exchanges(compiler: Compiler, build: Build) -> Program:
    return _program(compiler, "exchanges", build)


@pytest.fixture
def lds(compiler: Compiler, build: Build) -> Program:
    return _program(compiler, "lds", build)


@pytest.fixture
def launches(compiler: Compiler, build: Build) -> Program:
    return _program(compiler, "launches", build)


@pytest.fixture
def broken_rules(compiler: Compiler, build: Build) -> Program:
    return _program(compiler, "broken_rules", build)


@pytest.fixture
def sanitized_broken_rules(compiler: Compiler) -> Program:
    return _program(compiler, "broken_rules", SANITIZED)
