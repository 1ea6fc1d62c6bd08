import pytest
from build_helpers import Refusal, ToolFolder

from build_support.archs import HYGON_PCI_VENDOR
from build_support.machine import Machine, TorchBuild
from build_support.target import Selection, requested_target, select_target

CPU_TORCH = TorchBuild("2.13.0+cpu")
CUDA_TORCH = TorchBuild("2.13.0+cu130", cuda="13.0")
HIP_TORCH = TorchBuild("2.7.1+das", hip="6.3.25")
HYGON_CARD = TorchBuild("2.7.1+das", hip="6.3.25", device_archs=("gfx928:sramecc+:xnack-", "gfx928:sramecc+"))
AMD_CARD = TorchBuild("2.13.0+rocm", hip="7.0.1", device_archs=("gfx942:sramecc+:xnack-",))
GFX906_CARD = TorchBuild("2.7.1+das", hip="6.3.25", device_archs=("gfx906:sramecc+",))
HYGON_VENDOR = frozenset({HYGON_PCI_VENDOR})


def select(env: dict[str, str], machine: Machine, found: tuple[str, ...] = ()) -> Selection:
    return select_target(env, lambda: machine, lambda name: f"/bin/{name}" if name in found else None)


@pytest.mark.parametrize(
    ("env", "machine", "found", "expected"),
    [
        ({}, Machine(), (), Selection("host")),
        ({}, Machine(), ("nvcc",), Selection("host")),
        ({}, Machine(CPU_TORCH), (), Selection("host")),
        ({}, Machine(CPU_TORCH, has_kfd=True), ("hipcc", "nvcc"), Selection("host")),
        ({}, Machine(CUDA_TORCH), (), Selection("host")),
        ({}, Machine(CUDA_TORCH), ("nvcc",), Selection("nvidia", ("sm_90",))),
        ({}, Machine(HYGON_CARD), (), Selection("hcu", ("gfx928",))),
        ({}, Machine(AMD_CARD), (), Selection("amd", ("gfx942",))),
        ({}, Machine(GFX906_CARD), (), Selection("amd", ("gfx906",))),
        ({}, Machine(GFX906_CARD, gpu_vendors=HYGON_VENDOR), (), Selection("hcu", ("gfx906",))),
        (
            {"PYTORCH_ROCM_ARCH": "gfx936;gfx938"},
            Machine(HIP_TORCH),
            (),
            Selection("hcu", ("gfx936", "gfx938")),
        ),
        # The list that the user wrote beats the cards that happen to be there.
        ({"PYTORCH_ROCM_ARCH": "gfx90a"}, Machine(HYGON_CARD), (), Selection("amd", ("gfx90a",))),
        ({"PYTORCH_ROCM_ARCH": " "}, Machine(HYGON_CARD), (), Selection("hcu", ("gfx928",))),
        # An arch list alone, without a torch that could use it, changes nothing.
        ({"PYTORCH_ROCM_ARCH": "gfx928"}, Machine(CPU_TORCH), (), Selection("host")),
    ],
)
def test_detection(
    env: dict[str, str], machine: Machine, found: tuple[str, ...], expected: Selection
) -> None:
    assert select(env, machine, found) == expected


@pytest.mark.parametrize(
    ("env", "machine", "expected"),
    [
        ({"HYGON_BACKEND_TARGET": "nvidia"}, Machine(CUDA_TORCH), Selection("nvidia", ("sm_90",))),
        ({"HYGON_BACKEND_TARGET": "hcu"}, Machine(HYGON_CARD), Selection("hcu", ("gfx928",))),
        ({"HYGON_BACKEND_TARGET": "amd"}, Machine(AMD_CARD), Selection("amd", ("gfx942",))),
        # Forcing settles what the PCI vendor would decide otherwise.
        ({"HYGON_BACKEND_TARGET": "hcu"}, Machine(GFX906_CARD), Selection("hcu", ("gfx906",))),
        (
            {"HYGON_BACKEND_TARGET": "nvidia", "HYGON_BACKEND_ALLOW_CROSS": "1"},
            Machine(CPU_TORCH),
            Selection("nvidia", ("sm_90",)),
        ),
        (
            {"HYGON_BACKEND_TARGET": "nvidia", "HYGON_BACKEND_ALLOW_CROSS": "1"},
            Machine(),
            Selection("nvidia", ("sm_90",)),
        ),
        (
            {
                "HYGON_BACKEND_TARGET": "amd",
                "HYGON_BACKEND_ALLOW_CROSS": "1",
                "PYTORCH_ROCM_ARCH": "gfx90a",
            },
            Machine(CPU_TORCH),
            Selection("amd", ("gfx90a",)),
        ),
    ],
)
def test_a_forced_target(env: dict[str, str], machine: Machine, expected: Selection) -> None:
    assert select(env, machine) == expected


def test_the_host_target_does_not_look_at_torch() -> None:
    def probe() -> Machine:
        pytest.fail("torch was imported")

    assert select_target({"HYGON_BACKEND_TARGET": "host"}, probe, lambda name: None) == Selection("host")


@pytest.mark.parametrize("value", ["bogus", "", "HCU", "cuda"])
def test_an_unknown_target_is_refused(value: str, refusal: Refusal) -> None:
    assert refusal(lambda: requested_target({"HYGON_BACKEND_TARGET": value})) == (
        f"HYGON_BACKEND_TARGET is '{value}', but must be one of host, hcu, amd, nvidia, "
        "or unset to have it detected."
    )


@pytest.mark.parametrize(
    ("machine", "found"),
    [(Machine(), ("hipcc",)), (Machine(has_kfd=True), ()), (Machine(has_kfd=True), ("hipcc",))],
)
def test_a_hip_machine_without_torch_is_refused(
    machine: Machine, found: tuple[str, ...], refusal: Refusal
) -> None:
    assert refusal(lambda: select({}, machine, found)) == (
        "this machine has a HIP compiler or card, but torch, which tells the target to build, "
        "cannot be imported here: run `pip install --no-build-isolation .` in the environment "
        "where torch is installed, or set HYGON_BACKEND_TARGET=host to build without device kernels."
    )


def test_hipcc_is_found_through_rocm_path(tools: ToolFolder, refusal: Refusal) -> None:
    tools.add("dtk/bin/hipcc", "exit 0")
    env = {"ROCM_PATH": str(tools.folder / "dtk")}
    assert "torch" in refusal(lambda: select_target(env, Machine, tools.which))


@pytest.mark.parametrize("target", [None, "hcu", "amd", "nvidia"])
def test_a_torch_that_cannot_be_imported_is_refused(target: str | None, refusal: Refusal) -> None:
    env = {"HYGON_BACKEND_TARGET": target} if target else {}
    machine = Machine(torch_error="libgalaxyhip.so.5: cannot open shared object file")
    assert refusal(lambda: select(env, machine)) == (
        "torch is installed but cannot be imported "
        "(its message: libgalaxyhip.so.5: cannot open shared object file): "
        "repair it until `python -c 'import torch'` works, or set HYGON_BACKEND_TARGET=host."
    )


@pytest.mark.parametrize("env", [{}, {"HYGON_BACKEND_TARGET": "hcu"}, {"HYGON_BACKEND_TARGET": "amd"}])
def test_a_missing_arch_list_is_refused(env: dict[str, str], refusal: Refusal) -> None:
    assert refusal(lambda: select(env, Machine(HIP_TORCH))) == (
        "PYTORCH_ROCM_ARCH is unset and torch sees no card to take the architecture from: "
        "set it to your card's name, such as gfx928 or gfx90a."
    )


def test_mixed_cards_are_refused(refusal: Refusal) -> None:
    torch = TorchBuild("2.7.1", hip="6.3", device_archs=("gfx928", "gfx942"))
    assert refusal(lambda: select({}, Machine(torch))).startswith(
        "the list of this machine's cards mixes gfx928 (target hcu) with gfx942 (target amd)"
    )


def test_archs_of_the_other_target_are_refused(refusal: Refusal) -> None:
    env = {"HYGON_BACKEND_TARGET": "hcu", "PYTORCH_ROCM_ARCH": "gfx942"}
    assert refusal(lambda: select(env, Machine(HIP_TORCH))).startswith(
        "PYTORCH_ROCM_ARCH holds gfx942 of target amd"
    )


@pytest.mark.parametrize("target", ["hcu", "amd", "nvidia"])
def test_a_forced_target_without_torch_is_refused(target: str, refusal: Refusal) -> None:
    assert refusal(lambda: select({"HYGON_BACKEND_TARGET": target}, Machine())) == (
        f"HYGON_BACKEND_TARGET is '{target}', but torch cannot be imported where the build runs: "
        "run `pip install --no-build-isolation .` in the environment where torch is installed."
    )


CROSS_FIX = ", or set HYGON_BACKEND_ALLOW_CROSS=1 to check only that it compiles"


@pytest.mark.parametrize(
    ("target", "torch", "needed", "actual", "way_out"),
    [
        ("hcu", CPU_TORCH, "a HIP build (DTK or ROCm)", "a CPU build", ""),
        ("hcu", CUDA_TORCH, "a HIP build (DTK or ROCm)", "a CUDA 13.0 build", ""),
        ("amd", CPU_TORCH, "a HIP build (DTK or ROCm)", "a CPU build", CROSS_FIX),
        ("nvidia", CPU_TORCH, "a CUDA build", "a CPU build", CROSS_FIX),
        ("nvidia", HIP_TORCH, "a CUDA build", "a HIP 6.3.25 build", CROSS_FIX),
    ],
)
def test_a_torch_of_another_kind_is_refused(
    target: str, torch: TorchBuild, needed: str, actual: str, way_out: str, refusal: Refusal
) -> None:
    assert refusal(lambda: select({"HYGON_BACKEND_TARGET": target}, Machine(torch))) == (
        f"HYGON_BACKEND_TARGET is '{target}', which needs {needed} of torch, "
        f"but torch {torch.version} is {actual}: install {needed} of torch, "
        f"or unset HYGON_BACKEND_TARGET{way_out}."
    )


@pytest.mark.parametrize(
    ("target", "cross"), [("hcu", "1"), ("nvidia", "0"), ("nvidia", ""), ("nvidia", "true")]
)
def test_what_does_not_allow_a_cross_build(target: str, cross: str, refusal: Refusal) -> None:
    env = {"HYGON_BACKEND_TARGET": target, "HYGON_BACKEND_ALLOW_CROSS": cross, "PYTORCH_ROCM_ARCH": "gfx928"}
    assert "needs a" in refusal(lambda: select(env, Machine(CPU_TORCH)))
