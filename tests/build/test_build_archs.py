import pytest
from build_helpers import Refusal

from build_support.archs import (
    HYGON_PCI_VENDOR,
    ArchList,
    HipTarget,
    parse_archs,
    require_archs_of,
    target_of,
)

AMD_PCI_VENDOR = 0x1002
NO_VENDORS: frozenset[int] = frozenset()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ()),
        (" ; , ", ()),
        ("gfx928", ("gfx928",)),
        ("gfx928;gfx936", ("gfx928", "gfx936")),
        ("gfx928, gfx936 gfx938", ("gfx928", "gfx936", "gfx938")),
        ("gfx936;gfx928;gfx936", ("gfx936", "gfx928")),
        ("gfx928:sramecc+:xnack-;gfx928:xnack+", ("gfx928",)),
    ],
)
def test_parse_archs(text: str, expected: tuple[str, ...]) -> None:
    assert parse_archs(text) == expected


@pytest.mark.parametrize(
    ("names", "vendors", "expected"),
    [
        (("gfx926",), NO_VENDORS, "hcu"),
        (("gfx928",), NO_VENDORS, "hcu"),
        (("gfx936",), NO_VENDORS, "hcu"),
        (("gfx938",), NO_VENDORS, "hcu"),
        (("gfx90a",), NO_VENDORS, "amd"),
        (("gfx942",), NO_VENDORS, "amd"),
        (("gfx906",), NO_VENDORS, "amd"),
        (("gfx906",), frozenset({AMD_PCI_VENDOR}), "amd"),
        (("gfx906",), frozenset({HYGON_PCI_VENDOR}), "hcu"),
        (("gfx906",), frozenset({AMD_PCI_VENDOR, HYGON_PCI_VENDOR}), "hcu"),
        # A name that only one side has decides, whatever card is in the machine that builds.
        (("gfx906", "gfx928"), frozenset({AMD_PCI_VENDOR}), "hcu"),
        (("gfx906", "gfx942"), frozenset({HYGON_PCI_VENDOR}), "amd"),
    ],
)
def test_target_of(names: tuple[str, ...], vendors: frozenset[int], expected: HipTarget) -> None:
    assert target_of(ArchList(names, "PYTORCH_ROCM_ARCH"), vendors) == expected


def test_target_of_refuses_a_mix(refusal: Refusal) -> None:
    archs = ArchList(("gfx928", "gfx942", "gfx90a"), "PYTORCH_ROCM_ARCH")
    assert refusal(lambda: target_of(archs, NO_VENDORS)) == (
        "PYTORCH_ROCM_ARCH mixes gfx928 (target hcu) with gfx942, gfx90a (target amd), but one build serves "
        "one target: set PYTORCH_ROCM_ARCH to the archs of one."
    )


@pytest.mark.parametrize("name", ["gfx1100", "gfx908", "sm_90", "native"])
def test_an_unknown_arch_is_refused(name: str, refusal: Refusal) -> None:
    archs = ArchList(("gfx928", name), "PYTORCH_ROCM_ARCH")
    expected = (
        f"PYTORCH_ROCM_ARCH holds {name}, which no target builds: set PYTORCH_ROCM_ARCH to archs out of "
        "gfx906, gfx926, gfx928, gfx936, gfx938 (target hcu) or out of gfx906, gfx90a, gfx942 (target amd)."
    )
    assert refusal(lambda: target_of(archs, NO_VENDORS)) == expected
    assert refusal(lambda: require_archs_of("hcu", archs)) == expected


@pytest.mark.parametrize("target", ["hcu", "amd"])
def test_gfx906_belongs_to_both_targets(target: HipTarget) -> None:
    require_archs_of(target, ArchList(("gfx906",), "PYTORCH_ROCM_ARCH"))


@pytest.mark.parametrize(
    ("target", "foreign", "other", "allowed"),
    [
        ("hcu", "gfx942", "amd", "gfx906, gfx926, gfx928, gfx936, gfx938"),
        ("amd", "gfx928", "hcu", "gfx906, gfx90a, gfx942"),
    ],
)
def test_an_arch_of_the_other_target_is_refused(
    target: HipTarget, foreign: str, other: str, allowed: str, refusal: Refusal
) -> None:
    archs = ArchList(("gfx906", foreign), "the list of this machine's cards")
    assert refusal(lambda: require_archs_of(target, archs)) == (
        f"the list of this machine's cards holds {foreign} of target {other}, "
        f"but HYGON_BACKEND_TARGET={target} builds {allowed}: change one of the two."
    )
