"""Kernels that keep the rules run on the emulator as they would on a card."""

import itertools
import math

import pytest
from emulator_programs import KERNELS, PLAIN, PROGRAMS, Compiler, Program

Size = tuple[int, int, int]

WAVE = 64
POISON = -1
"""An int of 0xFF bytes."""


@pytest.mark.parametrize("threads", ["1", "3"])
@pytest.mark.parametrize(
    ("case", "launches"),
    [
        ("three_dimensions", [((3, 2, 2), (5, 7, 3))]),
        ("largest_block", [((2, 1, 1), (1024, 1, 1))]),
        ("block_sizes_in_turn", [((1, 1, 1), (size, 1, 1)) for size in (1, 200, 65)]),
    ],
)
def test_every_thread_runs_once_and_knows_its_place(
    indices: Program, order: str, threads: str, case: str, launches: list[tuple[Size, Size]]
) -> None:
    expected = [
        " ".join(map(str, (1, thread // WAVE, thread % WAVE, *block, *grid)))
        for grid, block in launches
        for _, thread in itertools.product(range(math.prod(grid)), range(math.prod(block)))
    ]
    assert indices.lines(case, order=order, threads=threads) == expected


def test_reversed_order_also_reverses_the_blocks(indices: Program) -> None:
    assert indices.numbers("block_order", order="forward") == [0, 1, 2, 3]
    assert indices.numbers("block_order", order="reversed") == [3, 2, 1, 0]


def test_forward_is_the_default_order(indices: Program) -> None:
    assert indices.numbers("block_order") == [0, 1, 2, 3]


def test_barriers_order_lds_traffic(barriers: Program, order: str) -> None:
    assert barriers.numbers("rotate", order=order) == [(thread + 5) % 256 for thread in range(256)]


@pytest.mark.parametrize("case", ["no_barrier_before_read", "no_barrier_before_write"])
def test_missing_barrier_shows(barriers: Program, case: str) -> None:
    forward = barriers.numbers(case, order="forward")
    assert barriers.numbers(case, order="reversed") != forward


def test_missing_barrier_between_waves_shows_across_exchanges(barriers: Program) -> None:
    assert barriers.numbers("read_other_wave_late", order="forward") == list(range(WAVE))
    assert barriers.numbers("read_other_wave_late", order="reversed") == [POISON] * WAVE


def test_barrier_does_not_wait_for_returned_threads(barriers: Program, order: str) -> None:
    def expected(thread: int) -> int:
        if thread % 3 == 0:
            return POISON
        other = thread + 1 if thread % 3 == 1 else thread - 1
        return other if other < 256 else POISON

    values = barriers.numbers("some_return_early", order=order)
    assert [value for i, value in enumerate(values) if i < 255] == [expected(i) for i in range(255)]
    assert barriers.numbers("last_returns", order=order) == [POISON] + [1] * 254 + [POISON]


def test_lds_is_poisoned_for_every_block(lds: Program, order: str) -> None:
    assert lds.numbers("unwritten", order=order) == [POISON] * 4
    assert lds.numbers("block_after_block", order=order) == [POISON] * 12


def test_lds_arrays_are_told_apart_by_declaration_and_instantiation(lds: Program) -> None:
    assert lds.numbers("identity") == [1, 1, 0, 0]


def test_lds_array_has_its_declared_type_and_is_aligned_for_wide_accesses(lds: Program) -> None:
    assert lds.numbers("shape") == [3 * 24 * 4, 0, 5, 0]


def test_a_block_may_use_all_lds(lds: Program) -> None:
    assert lds.numbers("all_of_it") == [2]


def test_exchange_shows_all_lanes_of_the_own_wave(exchanges: Program, order: str) -> None:
    wave = [(lane + 1) % WAVE * 10 for lane in range(WAVE)]
    assert exchanges.numbers("rotate", order=order) == wave * 2


def test_lanes_that_a_partial_wave_lacks_read_as_poison(exchanges: Program, order: str) -> None:
    whole = [(lane + 1) % WAVE * 10 for lane in range(WAVE)]
    assert exchanges.numbers("rotate_partial_wave", order=order) == [*whole, 10, 20, 30, 40, 50, POISON]


def test_exchange_of_the_largest_type(exchanges: Program, order: str) -> None:
    others = [WAVE - 1 - lane for lane in range(WAVE)]
    assert exchanges.numbers("largest_type", order=order) == [o * 10000 + o + 1000 for o in others]


def test_exchanged_values_stay_readable_until_the_next_exchange(exchanges: Program, order: str) -> None:
    total = sum(lane + 100 * turn for lane, turn in itertools.product(range(WAVE), range(8)))
    assert exchanges.numbers("read_late", order=order) == [total] * WAVE


def test_lanes_that_returned_read_as_poison(exchanges: Program, order: str) -> None:
    stayed = [lane * 1000 + POISON if lane % 2 == 0 else POISON for lane in range(WAVE)]
    assert exchanges.numbers("odd_lanes_return", order=order) == stayed
    later = [2 * POISON if 8 <= lane < 56 else POISON for lane in range(WAVE)]
    assert exchanges.numbers("others_return_later", order=order) == later


def test_waves_need_not_meet_in_the_same_exchange(exchanges: Program, order: str) -> None:
    assert exchanges.numbers("waves_at_different_exchanges", order=order) == [63] * WAVE + [126] * WAVE


def test_launch_limits(launches: Program) -> None:
    lines = launches.lines("limits")
    refused = lines.index("refused")
    assert lines[:refused] == [f"{count} 0 0 0" for count in (24 * 16, 1024, 65535, 65535)]
    *over_limits, dynamic_lds = lines[refused + 1 :]
    # Nothing ran, the error stays for one hipGetLastError, and is gone after it.
    assert over_limits == ["0 9 9 0"] * 13
    assert dynamic_lds == "0 1 1 0"


def test_arguments_are_evaluated_once_and_converted(launches: Program) -> None:
    assert launches.lines("arguments") == ["101.5 1"]


def test_a_thread_owns_its_parameters(launches: Program) -> None:
    assert launches.numbers("own_parameters") == [10, 11, 12, 13]


def test_runtime_functions(launches: Program) -> None:
    assert launches.lines("runtime") == ["ffffffff 0 8 5 0 0 1 invalid argument"]


@pytest.mark.parametrize("threads", ["1", "4"])
def test_atomics(launches: Program, order: str, threads: str) -> None:
    assert launches.lines("atomics", order=order, threads=threads) == ["1280000 12799 ", "1280000 0 "]


def test_wave_probe_sees_64_lanes(compiler: Compiler) -> None:
    sources = [PROGRAMS / "wave_width.cpp", KERNELS / "wave_probe.hip"]
    assert Program(compiler.program(sources, PLAIN)).numbers("") == [WAVE]
