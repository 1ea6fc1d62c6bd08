"""Detection of accelerators from the kernel drivers' files."""

from __future__ import annotations

from pathlib import Path

import pytest

from hygon_backend.device import CHIPS, Device, Vendor, detect, gfx_name


def add_node(root: Path, index: int, **properties: int) -> None:
    """Lays one node of the compute driver's topology into a made-up file system."""
    folder = root / "sys/class/kfd/kfd/topology/nodes" / str(index)
    folder.mkdir(parents=True)
    (folder / "properties").write_text("".join(f"{name} {value}\n" for name, value in properties.items()))


@pytest.mark.parametrize(
    ("version", "name"),
    [
        (90006, "gfx906"),
        (90010, "gfx90a"),
        (90402, "gfx942"),
        (90208, "gfx928"),
        (110001, "gfx1101"),
        (100306, "gfx1036"),
    ],
)
def test_target_version_becomes_a_gfx_name(version: int, name: str) -> None:
    assert gfx_name(version) == name


def test_cards_are_told_apart(tmp_path: Path) -> None:
    add_node(tmp_path, 0, gfx_target_version=0, vendor_id=0)  # a CPU is a node too
    add_node(tmp_path, 1, gfx_target_version=90208, vendor_id=0x1D94)
    add_node(tmp_path, 2, gfx_target_version=90402, vendor_id=0x1002)
    (tmp_path / "proc/driver/nvidia/gpus/0000:01:00.0").mkdir(parents=True)
    assert detect(tmp_path) == [
        Device(Vendor.HYGON, "gfx928"),
        Device(Vendor.AMD, "gfx942"),
        Device(Vendor.NVIDIA, ""),
    ]


def test_gfx906_is_hygons_only_with_hygons_pci_id(tmp_path: Path) -> None:
    add_node(tmp_path, 1, gfx_target_version=90006, vendor_id=0x1D94)
    add_node(tmp_path, 2, gfx_target_version=90006, vendor_id=0x1002)
    assert [device.vendor for device in detect(tmp_path)] == [Vendor.HYGON, Vendor.AMD]


def test_no_driver_means_no_device(tmp_path: Path) -> None:
    assert detect(tmp_path) == []


def test_chip_table_is_consistent() -> None:
    assert set(CHIPS) == {"gfx906", "gfx90a", "gfx942", "gfx926", "gfx928", "gfx936", "gfx938"}
    for name, chip in CHIPS.items():
        assert chip.gfx == name
        assert chip.wave == 64
        assert chip.lds_bytes == 65536
        if chip.vendor is Vendor.HYGON:
            assert chip.matrix == "MMAC", "an MFMA builtin compiles for a Hygon chip but faults at run time"
