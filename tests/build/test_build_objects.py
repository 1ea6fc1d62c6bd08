import os
from pathlib import Path

import pytest
from build_helpers import Refusal, ToolFolder

from build_support.objects import CompileJob, compile_all, make_job, worker_count

# Takes `-c SOURCE -o OBJECT`; refuses a source that says so.
FAKE_COMPILER = 'if grep -q mistake "$2"; then echo "$2:1: error: mistake"; exit 1; fi\ncp "$2" "$4"'


@pytest.fixture
def source(tmp_path: Path) -> Path:
    source = tmp_path / "unit.cpp"
    source.write_text("text")
    return source


@pytest.fixture
def job(tmp_path: Path, source: Path, tools: ToolFolder) -> CompileJob:
    return make_job(source, tmp_path / "objects", [tools.add("compiler", FAKE_COMPILER)], "compiler 1.0")


def set_age(path: Path, seconds: int) -> None:
    when = 1_700_000_000 - seconds
    os.utime(path, (when, when))


def test_objects_come_back_in_order(job: CompileJob, tmp_path: Path) -> None:
    second = tmp_path / "second.cpp"
    second.write_text("second")
    jobs = [job, make_job(second, tmp_path / "objects", job.command[:1], "compiler 1.0")]
    objects = compile_all(jobs, [], workers=2)
    assert [path.read_text() for path in objects] == ["text", "second"]


@pytest.mark.parametrize("header_is_newer", [True, False])
@pytest.mark.parametrize("source_is_newer", [True, False])
def test_only_stale_objects_are_compiled(
    job: CompileJob, tmp_path: Path, source_is_newer: bool, header_is_newer: bool
) -> None:
    header = tmp_path / "unit.h"
    header.touch()
    compile_all([job], [header], workers=1)
    job.object.write_text("old")
    set_age(job.object, 10)
    set_age(job.source, 5 if source_is_newer else 15)
    set_age(header, 5 if header_is_newer else 15)
    compile_all([job], [header], workers=1)
    assert job.object.read_text() == ("text" if source_is_newer or header_is_newer else "old")


def test_another_compiler_or_flag_makes_another_object(source: Path, tmp_path: Path) -> None:
    objects = {
        make_job(source, tmp_path, command, version).object
        for command, version in [(["cc"], "1"), (["cc"], "2"), (["cc", "-g"], "1")]
    }
    assert len(objects) == 3


def test_a_failed_compilation_ends_the_build(
    job: CompileJob, refusal: Refusal, capfd: pytest.CaptureFixture[str]
) -> None:
    job.source.write_text("mistake")
    assert refusal(lambda: compile_all([job], [], workers=2)) == (
        f"compiling {job.source} failed with status 1: the compiler's messages are above."
    )
    assert f"{job.source}:1: error: mistake" in capfd.readouterr().out


@pytest.mark.parametrize(("env", "expected"), [({}, 7), ({"MAX_JOBS": "3"}, 3)])
def test_worker_count(env: dict[str, str], expected: int) -> None:
    assert worker_count(env, cores=7) == expected


@pytest.mark.parametrize("value", ["", "0", "-1", "many", "1.5"])
def test_a_wrong_worker_count_is_refused(value: str, refusal: Refusal) -> None:
    assert refusal(lambda: worker_count({"MAX_JOBS": value}, cores=7)) == (
        f"MAX_JOBS is '{value}', but must be a positive number of compilers to run at once."
    )
