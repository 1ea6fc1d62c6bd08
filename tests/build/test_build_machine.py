import subprocess
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from build_support.machine import TorchBuild, describe_torch, read_gpu_vendors

REPOSITORY = Path(__file__).resolve().parents[2]


def fake_torch(*, hip: str | None, cuda: str | None, archs: tuple[str, ...]) -> ModuleType:
    torch = ModuleType("torch")
    torch.__dict__.update(
        __version__="2.7.1",
        version=SimpleNamespace(hip=hip, cuda=cuda),
        cuda=SimpleNamespace(
            device_count=lambda: len(archs),
            get_device_properties=lambda card: SimpleNamespace(gcnArchName=archs[card]),
        ),
    )
    return torch


def test_a_hip_torch_is_asked_for_its_cards() -> None:
    torch = fake_torch(hip="6.3", cuda=None, archs=("gfx928:xnack-", "gfx936"))
    assert describe_torch(torch) == TorchBuild(
        "2.7.1", hip="6.3", cuda=None, device_archs=("gfx928:xnack-", "gfx936")
    )


def test_a_cuda_torch_is_not_asked_for_gcn_names() -> None:
    assert describe_torch(fake_torch(hip=None, cuda="13.0", archs=("-",))).device_archs == ()


@pytest.mark.parametrize(
    ("torch", "kind"),
    [
        (TorchBuild("2", hip="6.3"), "a HIP 6.3 build"),
        (TorchBuild("2", cuda="13.0"), "a CUDA 13.0 build"),
        (TorchBuild("2"), "a CPU build"),
    ],
)
def test_the_kind_of_a_torch(torch: TorchBuild, kind: str) -> None:
    assert torch.kind == kind


def test_vendors_come_from_gpu_nodes_only(tmp_path: Path) -> None:
    nodes = {
        "0": "cpu_cores_count 64\nsimd_count 0\nvendor_id 9999\n",
        "1": "cpu_cores_count 0\nsimd_count 256\nvendor_id 7572\nunique_id -\n",
        "2": "cpu_cores_count 0\nsimd_count 256\nvendor_id 4098\n",
        "3": "",
    }
    for node, properties in nodes.items():
        (tmp_path / node).mkdir()
        (tmp_path / node / "properties").write_text(properties)
    assert read_gpu_vendors(tmp_path) == {0x1D94, 0x1002}


def test_no_topology_means_no_vendors(tmp_path: Path) -> None:
    assert read_gpu_vendors(tmp_path / "absent") == frozenset()


@pytest.mark.parametrize(
    ("torch_source", "expected"),
    [
        (None, "None None"),
        ("raise ImportError('libamdhip64.so:\\n cannot open')", "None libamdhip64.so: cannot open"),
        ("raise OSError('bad ELF')", "None bad ELF"),
        ("import surely_absent_dependency", "None No module named 'surely_absent_dependency'"),
    ],
)
def test_probing_an_absent_or_broken_torch(tmp_path: Path, torch_source: str | None, expected: str) -> None:
    if torch_source is not None:
        (tmp_path / "torch.py").write_text(torch_source)
    # A fresh interpreter without site-packages: here torch may be imported already, and stays so.
    code = (
        f"import sys; sys.path[:0] = [{str(tmp_path)!r}, {str(REPOSITORY)!r}]\n"
        "from build_support.machine import probe_machine\n"
        "machine = probe_machine(); print(machine.torch, machine.torch_error)"
    )
    run = subprocess.run(
        [sys.executable, "-I", "-S", "-B", "-c", code], capture_output=True, text=True, check=True
    )
    assert run.stdout.strip() == expected
