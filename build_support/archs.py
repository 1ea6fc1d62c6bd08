"""GPU architecture names: which target builds which, and how a list of them is read."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from build_support.errors import BuildError

Target = Literal["host", "hcu", "amd", "nvidia"]
HipTarget = Literal["hcu", "amd"]

TARGETS: tuple[Target, ...] = ("host", "hcu", "amd", "nvidia")

NVIDIA_ARCHS = ("sm_90",)

# gfx906 is in both: Hygon's Z100 and AMD's Vega 20 carry the same name.
HIP_ARCHS: dict[HipTarget, tuple[str, ...]] = {
    "hcu": ("gfx906", "gfx926", "gfx928", "gfx936", "gfx938"),
    "amd": ("gfx906", "gfx90a", "gfx942"),
}

HYGON_PCI_VENDOR = 0x1D94


@dataclass(frozen=True)
class ArchList:
    """Architecture names with the place they were read from, for messages."""

    names: tuple[str, ...]
    origin: str


def parse_archs(text: str) -> tuple[str, ...]:
    """Splits an arch list at `;`, `,` or blanks; drops repeats and features such as `:xnack-`."""
    return strip_features(re.split(r"[;,\s]+", text))


def strip_features(names: Iterable[str]) -> tuple[str, ...]:
    """Reduces names like `gfx928:sramecc+:xnack-` to `gfx928`; keeps the order, drops repeats."""
    bare = (name.split(":", 1)[0] for name in names)
    return tuple(dict.fromkeys(name for name in bare if name))


def target_of(archs: ArchList, gpu_vendors: frozenset[int]) -> HipTarget:
    """The target that builds all of `archs`; the cards' PCI vendors settle names that both have."""
    _reject_unknown(archs)
    hcu_only = [name for name in archs.names if name not in HIP_ARCHS["amd"]]
    amd_only = [name for name in archs.names if name not in HIP_ARCHS["hcu"]]
    if hcu_only and amd_only:
        raise BuildError(
            f"{archs.origin} mixes {', '.join(hcu_only)} (target hcu) with {', '.join(amd_only)} "
            "(target amd), but one build serves one target: set PYTORCH_ROCM_ARCH to the archs of one."
        )
    if hcu_only or amd_only:
        return "hcu" if hcu_only else "amd"
    return "hcu" if HYGON_PCI_VENDOR in gpu_vendors else "amd"


def require_archs_of(target: HipTarget, archs: ArchList) -> None:
    """Raises BuildError unless `target` builds every one of `archs`."""
    _reject_unknown(archs)
    foreign = [name for name in archs.names if name not in HIP_ARCHS[target]]
    if foreign:
        other = "amd" if target == "hcu" else "hcu"
        raise BuildError(
            f"{archs.origin} holds {', '.join(foreign)} of target {other}, but HYGON_BACKEND_TARGET={target} "
            f"builds {', '.join(HIP_ARCHS[target])}: change one of the two."
        )


def _reject_unknown(archs: ArchList) -> None:
    known = {name for names in HIP_ARCHS.values() for name in names}
    unknown = [name for name in archs.names if name not in known]
    if unknown:
        raise BuildError(
            f"{archs.origin} holds {', '.join(unknown)}, which no target builds: set PYTORCH_ROCM_ARCH "
            f"to archs out of {', '.join(HIP_ARCHS['hcu'])} (target hcu) "
            f"or out of {', '.join(HIP_ARCHS['amd'])} (target amd)."
        )
