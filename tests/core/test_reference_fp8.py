"""`reference.quantise_fp8` against literal codes and against torch's conversion instruction."""

import math

import pytest
import torch

from hygon_backend import reference

E4M3, E5M2 = torch.float8_e4m3fn, torch.float8_e5m2

E4M3_CASES = [
    ("zero", 0.0, 0x00),
    ("minus zero", -0.0, 0x80),
    ("one", 1.0, 0x38),
    ("largest", 448.0, 0x7E),
    ("above the largest", 449.0, 0x7E),
    ("halfway to a value that does not exist", 464.0, 0x7E),
    ("far above", 1e30, 0x7E),
    ("infinity", math.inf, 0x7E),
    ("minus infinity", -math.inf, 0xFE),
    ("below the smallest", -449.0, 0xFE),
    ("tie 1 | 1.125 goes to the even code", 1.0625, 0x38),
    ("tie 1.125 | 1.25 goes to the even code", 1.1875, 0x3A),
    ("just above a tie", math.nextafter(1.0625, 2), 0x39),
    ("just below a tie", math.nextafter(1.1875, 1), 0x39),
    ("negative tie", -1.0625, 0xB8),
    ("tie 416 | 448", 432.0, 0x7E),
    ("tie 384 | 416", 400.0, 0x7C),
    ("smallest normal", 2.0**-6, 0x08),
    ("smallest subnormal", 2.0**-9, 0x01),
    ("largest subnormal", 7 * 2.0**-9, 0x07),
    ("tie 0 | smallest", 2.0**-10, 0x00),
    ("tie -0 | -smallest", -(2.0**-10), 0x80),
    ("above the tie with zero", 1.01 * 2.0**-10, 0x01),
    ("subnormal tie 1 | 2", 1.5 * 2.0**-9, 0x02),
    ("subnormal tie 2 | 3", 2.5 * 2.0**-9, 0x02),
]

E5M2_CASES = [
    ("zero", 0.0, 0x00),
    ("minus zero", -0.0, 0x80),
    ("one", 1.0, 0x3C),
    ("largest", 57344.0, 0x7B),
    ("above the largest", 57345.0, 0x7B),
    ("halfway to infinity", 61440.0, 0x7B),
    ("infinity", math.inf, 0x7B),
    ("minus infinity", -math.inf, 0xFB),
    ("tie 1 | 1.25", 1.125, 0x3C),
    ("tie 1.25 | 1.5", 1.375, 0x3E),
    ("smallest subnormal", 2.0**-16, 0x01),
    ("tie 0 | smallest", 2.0**-17, 0x00),
    ("subnormal tie 1 | 2", 1.5 * 2.0**-16, 0x02),
]

CASES = [
    pytest.param(dtype, value, code, id=f"{str(dtype)[13:]}: {label}")
    for dtype, cases in ((E4M3, E4M3_CASES), (E5M2, E5M2_CASES))
    for label, value, code in cases
]


def quantise(values: list[float] | torch.Tensor, dtype: torch.dtype, scale: object = None) -> torch.Tensor:
    """Codes of a list of numbers, as one head of one token."""
    x = torch.as_tensor(values, dtype=torch.float64).reshape(1, 1, -1)
    return reference.quantise_fp8(x, dtype, scale)[0, 0]


@pytest.mark.parametrize(("dtype", "value", "code"), CASES)
def test_literal_codes(dtype: torch.dtype, value: float, code: int) -> None:
    assert quantise([value], dtype).view(torch.uint8).tolist() == [code]


@pytest.mark.parametrize("dtype", [E4M3, E5M2])
@pytest.mark.parametrize("scale", [None, 0.25, 448.0])
def test_nan_stays_nan(dtype: torch.dtype, scale: float | None) -> None:
    result = quantise([math.nan, 1.0, -math.nan], dtype, scale)
    assert result.double().isnan().tolist() == [True, False, True]


@pytest.mark.parametrize("dtype", [E4M3, E5M2])
def test_every_representable_value_keeps_its_code(dtype: torch.dtype) -> None:
    codes = reference.fp8_codes(dtype)
    finite = codes.isfinite()
    result = quantise(codes[finite], dtype).view(torch.uint8)
    assert result.tolist() == torch.arange(256)[finite].tolist()


@pytest.mark.parametrize("dtype", [E4M3, E5M2])
def test_agrees_with_torch_on_every_float16_within_range(dtype: torch.dtype) -> None:
    values = torch.arange(65536, dtype=torch.int32).to(torch.int16).view(torch.float16)
    values = values[values.double().abs() <= torch.finfo(dtype).max]
    assert len(values) > 30000
    want = values.to(dtype).view(torch.uint8)
    assert torch.equal(quantise(values, dtype).view(torch.uint8), want)


def test_divides_by_a_number_or_by_the_scale_of_each_head() -> None:
    x = torch.tensor([[[1.0, 8.0], [1.0, 8.0]]])  # one token, two heads
    assert reference.quantise_fp8(x, E4M3, 0.25).float().tolist() == [[[4.0, 32.0], [4.0, 32.0]]]
    scales = torch.tensor([0.5, 4.0])
    assert reference.quantise_fp8(x, E4M3, scales).float().tolist() == [[[2.0, 16.0], [0.25, 2.0]]]


def test_saturation_applies_after_the_scale() -> None:
    assert quantise([896.0, 112.5, 112.0], E4M3, 2.0).float().tolist() == [448.0, 56.0, 56.0]
    assert quantise([112.5, 112.0], E4M3, 0.25).float().tolist() == [448.0, 448.0]
