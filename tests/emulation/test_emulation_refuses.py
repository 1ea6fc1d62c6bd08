"""Kernels and settings that break a rule stop with a sentence instead of a hang or a wrong result."""

import signal

import pytest
from emulator_programs import PROGRAMS, Compiler, Program


def message(program: Program, case: str, **settings: str) -> str:
    """The line that an aborting case prints."""
    done = program.run(case, **settings)
    assert done.returncode == -signal.SIGABRT, done.stdout + done.stderr
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    return line


@pytest.mark.parametrize(
    ("case", "order", "thread", "other_lane"),
    [
        ("low_lanes_in_exchange", "forward", "thread (32, 0, 0), wave 0, lane 32", 0),
        ("low_lanes_in_exchange", "reversed", "thread (31, 0, 0), wave 0, lane 31", 32),
        ("high_lanes_in_exchange", "forward", "thread (32, 0, 0), wave 0, lane 32", 0),
        ("high_lanes_in_exchange", "reversed", "thread (31, 0, 0), wave 0, lane 31", 32),
    ],
)
def test_lanes_of_a_wave_in_an_exchange_and_in_a_barrier(
    broken_rules: Program, case: str, order: str, thread: str, other_lane: int
) -> None:
    line = message(broken_rules, case, order=order)
    assert line.startswith(f"HIP emulation: block (0, 0, 0), {thread}: divergence: this lane waits in ")
    assert f"lane {other_lane} of its wave" in line
    assert "Exchange" in line
    assert "__syncthreads at " in line
    assert "broken_rules.hip:" in line


def test_lanes_of_a_wave_in_exchanges_of_different_types(broken_rules: Program) -> None:
    line = message(broken_rules, "two_types")
    assert "block (0, 0, 0), thread (63, 0, 0)" in line
    assert "T = float" in line
    assert "T = int" in line
    assert "block (1, 2, 0), thread (62, 0, 0)" in message(broken_rules, "two_types", order="reversed")


def test_threads_of_a_block_in_different_barriers(broken_rules: Program, order: str) -> None:
    line = message(broken_rules, "two_barriers", order=order)
    assert ("thread (64, 0, 0)" if order == "forward" else "thread (63, 0, 0)") in line
    assert line.count("broken_rules.hip:") == 2


def test_more_lds_than_there_is(lds: Program) -> None:
    assert "the block needs 65552 bytes of LDS, and there are 65536" in message(lds, "too_much")


def test_launch_from_a_kernel(broken_rules: Program) -> None:
    assert "a kernel launched a kernel" in message(broken_rules, "launch_from_kernel")


def test_device_code_outside_a_kernel(broken_rules: Program) -> None:
    line = message(broken_rules, "outside_a_kernel")
    assert line == "HIP emulation: device code was called outside a kernel"


def test_stack_overflow_hits_a_guard(broken_rules: Program) -> None:
    done = broken_rules.run("stack")
    assert "got away" not in done.stdout
    assert done.returncode == -signal.SIGSEGV or "stack-overflow" in done.stderr


@pytest.mark.parametrize(
    ("case", "fault"),
    [
        ("lds_past_the_end", "heap-buffer-overflow"),
        ("lds_before_the_start", "heap-buffer-overflow"),
        ("lds_of_template", "heap-buffer-overflow"),
        ("lds_kept", "heap-use-after-free"),
        ("device_memory", "heap-buffer-overflow"),
    ],
)
def test_sanitized_build_catches_bad_accesses(sanitized_broken_rules: Program, case: str, fault: str) -> None:
    done = sanitized_broken_rules.run(case)
    assert done.returncode != 0
    assert "got away" not in done.stdout
    assert f"AddressSanitizer: {fault}" in done.stderr
    assert "broken_rules.hip:" in done.stderr


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("order", "backward", 'HYGON_EMULATION_ORDER is "backward": it must be forward or reversed'),
        ("order", "", 'HYGON_EMULATION_ORDER is "": it must be forward or reversed'),
        ("threads", "0", 'HYGON_EMULATION_THREADS is "0": it must be a number from 1 to 256'),
        ("threads", "257", 'HYGON_EMULATION_THREADS is "257": it must be a number from 1 to 256'),
        ("threads", "two", 'HYGON_EMULATION_THREADS is "two": it must be a number from 1 to 256'),
        ("threads", "2x", 'HYGON_EMULATION_THREADS is "2x": it must be a number from 1 to 256'),
    ],
)
def test_unknown_settings(indices: Program, name: str, value: str, expected: str) -> None:
    assert message(indices, "block_order", **{name: value}) == f"HIP emulation: {expected}"


def test_plain_shared_keyword_does_not_compile(compiler: Compiler) -> None:
    done = compiler.try_compile(["-fsyntax-only", "-x", "c++", PROGRAMS / "plain_shared.hip"])
    assert done.returncode != 0
    assert "declare LDS with HYGON_SHARED of detail/shared.h" in done.stderr
