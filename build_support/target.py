"""Choice of the target and its architectures."""

from collections.abc import Callable
from dataclasses import dataclass

from build_support.archs import (
    NVIDIA_ARCHS,
    TARGETS,
    ArchList,
    Target,
    parse_archs,
    require_archs_of,
    strip_features,
    target_of,
)
from build_support.errors import BuildError
from build_support.machine import Machine
from build_support.tools import Environment, Which, find_tool

TARGET_VARIABLE = "HYGON_BACKEND_TARGET"
CROSS_VARIABLE = "HYGON_BACKEND_ALLOW_CROSS"
ARCH_VARIABLE = "PYTORCH_ROCM_ARCH"

# Targets whose compiler runs on machines without the card: there a compile check is worth having
# even where torch is another build. Hygon's compiler only ever sits beside Hygon's torch.
_CROSS_TARGETS = ("amd", "nvidia")

_NO_ISOLATION = "`pip install --no-build-isolation .` in the environment where torch is installed"


@dataclass(frozen=True)
class Selection:
    """A target with the device architectures to compile for; the host target has none."""

    target: Target
    archs: tuple[str, ...] = ()


def requested_target(env: Environment) -> Target | None:
    """The target that the user asked for, or None when it is to be detected."""
    value = env.get(TARGET_VARIABLE)
    if value is None:
        return None
    for target in TARGETS:
        if value == target:
            return target
    raise BuildError(
        f"{TARGET_VARIABLE} is '{value}', but must be one of {', '.join(TARGETS)}, "
        "or unset to have it detected."
    )


def select_target(env: Environment, probe: Callable[[], Machine], which: Which) -> Selection:
    """Decides what to build. `probe` is called only when the environment alone does not decide."""
    requested = requested_target(env)
    if requested == "host":
        return Selection("host")
    machine = probe()
    if requested is None:
        return _detect(env, machine, which)
    if not (requested in _CROSS_TARGETS and env.get(CROSS_VARIABLE) == "1"):
        _require_matching_torch(requested, machine)
    if requested == "nvidia":
        return Selection("nvidia", NVIDIA_ARCHS)
    archs = _hip_archs(env, machine)
    require_archs_of(requested, archs)
    return Selection(requested, archs.names)


def _detect(env: Environment, machine: Machine, which: Which) -> Selection:
    _reject_broken_torch(machine)
    torch = machine.torch
    if torch is None:
        if machine.has_kfd or find_tool("hipcc", env, which):
            raise BuildError(
                "this machine has a HIP compiler or card, but torch, which tells the target to build, "
                f"cannot be imported here: run {_NO_ISOLATION}, "
                f"or set {TARGET_VARIABLE}=host to build without device kernels."
            )
        return Selection("host")
    if torch.hip:
        archs = _hip_archs(env, machine)
        return Selection(target_of(archs, machine.gpu_vendors), archs.names)
    if torch.cuda and find_tool("nvcc", env, which):
        return Selection("nvidia", NVIDIA_ARCHS)
    return Selection("host")


def _hip_archs(env: Environment, machine: Machine) -> ArchList:
    if names := parse_archs(env.get(ARCH_VARIABLE, "")):
        return ArchList(names, ARCH_VARIABLE)
    if machine.torch and machine.torch.device_archs:
        return ArchList(strip_features(machine.torch.device_archs), "the list of this machine's cards")
    raise BuildError(
        f"{ARCH_VARIABLE} is unset and torch sees no card to take the architecture from: "
        "set it to your card's name, such as gfx928 or gfx90a."
    )


def _require_matching_torch(target: Target, machine: Machine) -> None:
    _reject_broken_torch(machine)
    torch = machine.torch
    if torch is None:
        raise BuildError(
            f"{TARGET_VARIABLE} is '{target}', but torch cannot be imported where the build runs: "
            f"run {_NO_ISOLATION}."
        )
    if target == "nvidia":
        matches, needed = torch.cuda is not None, "a CUDA build"
    else:
        matches, needed = torch.hip is not None, "a HIP build (DTK or ROCm)"
    if matches:
        return
    fixes = [f"install {needed} of torch", f"unset {TARGET_VARIABLE}"]
    if target in _CROSS_TARGETS:
        fixes.append(f"set {CROSS_VARIABLE}=1 to check only that it compiles")
    raise BuildError(
        f"{TARGET_VARIABLE} is '{target}', which needs {needed} of torch, "
        f"but torch {torch.version} is {torch.kind}: {', or '.join(fixes)}."
    )


def _reject_broken_torch(machine: Machine) -> None:
    if machine.torch_error is not None:
        raise BuildError(
            f"torch is installed but cannot be imported (its message: {machine.torch_error}): "
            f"repair it until `python -c 'import torch'` works, or set {TARGET_VARIABLE}=host."
        )
