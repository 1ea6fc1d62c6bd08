"""The fragment probe on emulated matrix units: it knows each one, and notices a build for another."""

from dataclasses import dataclass

import pytest
from emulator_programs import KERNELS, PLAIN, PROGRAMS, Compiler, Program

UNITS = ("MFMA", "MMAC layout 1", "MMAC layout 2", "lanes without a matrix unit")
"""By number of HYGON_EMULATED_UNIT."""

Place = tuple[int, int]


@dataclass(frozen=True)
class Report:
    matches: bool
    assumed: str
    recovered: str
    message: str
    wave_width: int
    places: list[Place]


def probe(compiler: Compiler, element_type: str, unit: int, assumed: int | None) -> Report:
    options = ["-Wno-unknown-pragmas", f"-DHYGON_EMULATED_UNIT={unit}"]
    if assumed is not None:
        options.append(f"-DHYGON_EMULATED_ASSUMED_UNIT={assumed}")
    sources = [PROGRAMS / "fragments.cpp", KERNELS / "fragment_probe.hip"]
    lines = Program(compiler.program(sources, PLAIN, options)).lines(element_type)
    places = [tuple(map(int, place.split(","))) for place in lines[5].split()]
    return Report(lines[0] == "1", *lines[1:4], int(lines[4]), [(row, column) for row, column in places])


def place_of(unit: int, lane: int, i: int) -> Place:
    """What element i of a lane holds, from the documents."""
    row, quarter = (lane // 4, lane % 4) if unit == 3 else (lane % 16, lane // 16)
    column = {1: quarter + 4 * i, 2: i // 2 * 8 + quarter * 2 + i % 2}.get(unit, quarter * 4 + i)
    return row, column


@pytest.mark.parametrize("element_type", ["half", "bfloat16"])
@pytest.mark.parametrize("unit", range(4), ids=UNITS)
def test_a_unit_as_compiled_matches(compiler: Compiler, element_type: str, unit: int) -> None:
    report = probe(compiler, element_type, unit, None)
    assert report.matches
    assert report.assumed == report.recovered == UNITS[unit]
    assert report.message == f"the matrix unit holds its results as {UNITS[unit]}, as compiled"
    assert report.wave_width == 64
    assert report.places == [place_of(unit, lane, i) for lane in range(64) for i in range(4)]


@pytest.mark.parametrize(("unit", "assumed"), [(0, 1), (1, 0), (1, 2), (2, 1), (1, 3), (3, 1)])
def test_another_unit_is_noticed_and_named(compiler: Compiler, unit: int, assumed: int) -> None:
    report = probe(compiler, "half", unit, assumed)
    assert not report.matches
    assert (report.assumed, report.recovered) == (UNITS[assumed], UNITS[unit])
    assert report.places == [place_of(unit, lane, i) for lane in range(64) for i in range(4)]
    assert report.message.startswith(
        f"the matrix unit holds its results as {UNITS[unit]}, but the kernels were compiled for "
        f"{UNITS[assumed]}: element "
    )


def test_the_message_names_the_first_difference(compiler: Compiler) -> None:
    assert probe(compiler, "half", 2, 1).message.endswith(
        "element 1 of lane 0 is row 0, column 1 and not row 0, column 4"
    )
