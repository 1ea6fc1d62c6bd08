"""Which accelerators a machine has and what their chips are like.

Detection reads the kernel driver's files only: it starts no device runtime, so an engine may still
fork its workers afterwards.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

HYGON_PCI_VENDOR = 0x1D94
"""PCI vendor id of the Hygon DCU cards; it tells a Z100 from an AMD card of the same gfx906."""


class Vendor(str, Enum):
    """Maker of an accelerator."""

    HYGON = "Hygon"
    AMD = "AMD"
    NVIDIA = "NVIDIA"

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True)
class ChipTraits:
    """Facts of a chip that kernels and heuristics depend on.

    `wave` is the wavefront width in lanes, `lds_bytes` the local memory of a compute unit, `matrix`
    the matrix instruction family ("" for none), `fp8` whether it has fp8 matrix instructions.
    """

    gfx: str
    vendor: Vendor
    wave: int
    lds_bytes: int
    matrix: str
    fp8: bool = False


_LDS = 64 * 1024

CHIPS: dict[str, ChipTraits] = {
    chip.gfx: chip
    for chip in (
        ChipTraits("gfx906", Vendor.AMD, 64, _LDS, ""),
        ChipTraits("gfx90a", Vendor.AMD, 64, _LDS, "MFMA"),
        ChipTraits("gfx942", Vendor.AMD, 64, _LDS, "MFMA", fp8=True),
        ChipTraits("gfx926", Vendor.HYGON, 64, _LDS, "MMAC"),
        ChipTraits("gfx928", Vendor.HYGON, 64, _LDS, "MMAC"),
        ChipTraits("gfx936", Vendor.HYGON, 64, _LDS, "MMAC"),
        ChipTraits("gfx938", Vendor.HYGON, 64, _LDS, "MMAC", fp8=True),
    )
}
"""Known chips by gfx name. gfx906 is also the Hygon Z100: its vendor comes from the PCI id."""


@dataclass(frozen=True)
class Device:
    """One accelerator found on this machine; `gfx` is empty for NVIDIA cards."""

    vendor: Vendor
    gfx: str

    def __str__(self) -> str:
        return f"{self.vendor} {self.gfx}".strip()


def gfx_name(target_version: int) -> str:
    """Turns the driver's `gfx_target_version` (major * 10000 + minor * 100 + stepping) into a name.

    Minor and stepping are hexadecimal digits of the name: 90010 is gfx90a.
    """
    major, minor, stepping = target_version // 10000, target_version // 100 % 100, target_version % 100
    return f"gfx{major}{minor:x}{stepping:x}"


def detect(root: Path = Path("/")) -> list[Device]:
    """Lists the accelerators whose kernel drivers are loaded.

    Args:
        root: file system root; tests point it at a made-up tree.
    """
    return [*_kfd_devices(root), *_nvidia_devices(root)]


def _kfd_devices(root: Path) -> Iterator[Device]:
    """AMD's and Hygon's compute driver publishes one folder of properties per node, CPUs included."""
    for node in sorted(root.glob("sys/class/kfd/kfd/topology/nodes/*/properties")):
        try:
            lines = node.read_text().splitlines()
        except OSError:  # another container's card: its properties are not ours to read
            continue
        properties = dict(line.split(maxsplit=1) for line in lines if " " in line)
        version = int(properties.get("gfx_target_version", "0"))
        if version == 0:
            continue
        gfx = gfx_name(version)
        chip = CHIPS.get(gfx)
        is_hygon = int(properties.get("vendor_id", "0")) == HYGON_PCI_VENDOR or (
            chip is not None and chip.vendor is Vendor.HYGON
        )
        yield Device(Vendor.HYGON if is_hygon else Vendor.AMD, gfx)


def _nvidia_devices(root: Path) -> Iterator[Device]:
    for _ in sorted(root.glob("proc/driver/nvidia/gpus/*")):
        yield Device(Vendor.NVIDIA, "")
