"""Facts about the machine and its torch that decide the target."""

import importlib
import warnings
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

KFD_DEVICE = Path("/dev/kfd")
KFD_TOPOLOGY = Path("/sys/class/kfd/kfd/topology/nodes")


@dataclass(frozen=True)
class TorchBuild:
    """The torch of the build environment."""

    version: str
    hip: str | None = None
    cuda: str | None = None
    device_archs: tuple[str, ...] = ()
    """`gcnArchName` of every visible card; empty unless torch is a HIP build."""

    @property
    def kind(self) -> str:
        """What torch was built for, in words."""
        if self.hip:
            return f"a HIP {self.hip} build"
        if self.cuda:
            return f"a CUDA {self.cuda} build"
        return "a CPU build"


@dataclass(frozen=True)
class Machine:
    """What `probe_machine` found."""

    torch: TorchBuild | None = None
    torch_error: str | None = None
    """Why an installed torch cannot be imported; None when it can, or when there is none."""
    has_kfd: bool = False
    gpu_vendors: frozenset[int] = frozenset()


def probe_machine() -> Machine:
    """Looks at this machine. Imports torch, so call it only when the answer matters."""
    torch, torch_error = None, None
    try:
        with warnings.catch_warnings():
            # What torch warns about here, such as a missing numpy, is nothing to the build.
            warnings.simplefilter("ignore")
            torch = describe_torch(importlib.import_module("torch"))
    except ModuleNotFoundError as error:
        # A torch that lacks one of its own dependencies is broken, not absent.
        torch_error = None if error.name == "torch" else _one_line(error)
    except (ImportError, OSError) as error:
        torch_error = _one_line(error)
    return Machine(torch, torch_error, KFD_DEVICE.exists(), read_gpu_vendors(KFD_TOPOLOGY))


def describe_torch(torch: ModuleType) -> TorchBuild:
    """Reads the build kind of an imported torch and, on HIP, the names of the visible cards."""
    cards = torch.cuda.device_count() if torch.version.hip else 0
    archs = tuple(torch.cuda.get_device_properties(card).gcnArchName for card in range(cards))
    return TorchBuild(torch.__version__, torch.version.hip, torch.version.cuda, archs)


def read_gpu_vendors(topology: Path) -> frozenset[int]:
    """PCI vendor ids of the GPU nodes in the kernel driver's topology folder."""
    vendors = set()
    for properties in topology.glob("*/properties"):
        pairs = (line.split() for line in properties.read_text().splitlines())
        values = {pair[0]: int(pair[1]) for pair in pairs if len(pair) == 2 and pair[1].isdigit()}
        # CPUs are nodes too, and a Hygon CPU says nothing about the cards beside it.
        if values.get("simd_count", 0) > 0:
            vendors.add(values.get("vendor_id", 0))
    return frozenset(vendors)


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())
