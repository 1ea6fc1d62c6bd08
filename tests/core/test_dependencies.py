"""Arrows only point down: adapters know the core, the core knows torch, kernels know neither.

The checks read the sources (`ast` for Python, `#include` lines for C++), so they hold for imports
that no test happens to execute. Each check is itself tested on a text that breaks its rule.
"""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

import hygon_backend

PACKAGE = Path(hygon_backend.__file__).parent
NATIVE = Path(__file__).parents[2] / "csrc"
ADAPTERS = {"vllm_plugin": "vllm", "sglang_plugin": "sglang"}
ENGINES = set(ADAPTERS.values())
DIRECTORIES_WITHOUT_TORCH = ("kernels", "cache")
FORBIDDEN_HEADERS = re.compile(r"^(torch|ATen|c10|caffe2|pybind11)/|^Python\.h$")


def imported_modules(source: str, module: str, *, is_package: bool = False) -> set[str]:
    """Absolute names of all modules a source text imports, at any depth and through importlib.

    Args:
        source: the text of the module.
        module: its dotted name, for relative imports.
        is_package: the text is an `__init__.py`.
    """
    found: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            parents = module.split(".")
            kept = len(parents) - node.level + is_package
            base = ".".join([*(parents[:kept] if node.level else []), *filter(None, [node.module])])
            found.update({base} | {f"{base}.{alias.name}" for alias in node.names})
        elif isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
            name = ast.unparse(node.func).rpartition(".")[2]
            if name in ("import_module", "__import__") and isinstance(node.args[0].value, str):
                found.add(node.args[0].value)
    return found


def within(name: str, package: str) -> bool:
    """Tells whether a module is `package` or lies in it."""
    return name == package or name.startswith(package + ".")


def core_violations(source: str, module: str, *, is_package: bool = False) -> set[str]:
    """Imports of a core module beyond the standard library, torch and the core itself."""
    adapters = [f"hygon_backend.{adapter}" for adapter in ADAPTERS]
    allowed = {"torch", "hygon_backend", *sys.stdlib_module_names}
    return {
        name
        for name in imported_modules(source, module, is_package=is_package)
        if name.partition(".")[0] not in allowed or any(within(name, adapter) for adapter in adapters)
    }


def adapter_violations(source: str, module: str, adapter: str, *, is_package: bool = False) -> set[str]:
    """Imports of one engine's adapter that reach for another engine or for its adapter."""
    others = [name for other, engine in ADAPTERS.items() if other != adapter for name in (other, engine)]
    forbidden = [name for other in others for name in (other, f"hygon_backend.{other}")]
    names = imported_modules(source, module, is_package=is_package)
    return {name for name in names if any(within(name, other) for other in forbidden)}


def include_violations(source: str) -> list[str]:
    """Headers of torch, Python or pybind11 that a C++ text includes."""
    headers = re.findall(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]', source, flags=re.MULTILINE)
    return [header for header in headers if FORBIDDEN_HEADERS.search(header)]


def python_files() -> list[Path]:
    """All modules and stubs of the package."""
    return sorted(path for suffix in ("*.py", "*.pyi") for path in PACKAGE.rglob(suffix))


def describe(path: Path) -> tuple[str, str, bool]:
    """(dotted name, name of the adapter or "", whether it is a package) of a source file."""
    parts = [*path.relative_to(PACKAGE.parent).with_suffix("").parts]
    is_package = parts[-1] == "__init__"
    adapter = parts[1] if parts[1] in ADAPTERS else ""
    return ".".join(parts[:-1] if is_package else parts), adapter, is_package


@pytest.mark.parametrize("path", python_files(), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_module_imports_only_what_its_layer_may(path: Path) -> None:
    module, adapter, is_package = describe(path)
    source = path.read_text(encoding="utf-8")
    if adapter:
        assert not adapter_violations(source, module, adapter, is_package=is_package)
    else:
        assert not core_violations(source, module, is_package=is_package)


def native_files() -> list[Path]:
    """C++ sources and headers that must do without torch and Python."""
    return sorted(
        path
        for directory in DIRECTORIES_WITHOUT_TORCH
        for path in (NATIVE / directory).rglob("*")
        if path.suffix in (".h", ".hpp", ".cpp", ".hip", ".cu", ".cuh")
    )


@pytest.mark.parametrize("path", native_files(), ids=lambda path: path.name)
def test_native_file_includes_neither_torch_nor_python(path: Path) -> None:
    assert not include_violations(path.read_text(encoding="utf-8"))


def test_importing_the_package_imports_no_engine() -> None:
    program = f"import sys, hygon_backend; print([m for m in {sorted(ENGINES)} if m in sys.modules])"
    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=PACKAGE.parent
    )
    assert result.stdout.strip() == "[]"


class TestTheChecksCanFail:
    @pytest.mark.parametrize(
        ("source", "found"),
        [
            ("import vllm", {"vllm"}),
            ("import vllm.config as c", {"vllm.config"}),
            ("from vllm.v1 import x", {"vllm.v1", "vllm.v1.x"}),
            ("def f():\n    import sglang", {"sglang"}),
            ("if TYPE_CHECKING:\n    from sglang import y", {"sglang", "sglang.y"}),
            ("import numpy", {"numpy"}),
            ("import torchvision", {"torchvision"}),
            ("from hygon_backend import vllm_plugin", {"hygon_backend.vllm_plugin"}),
            ("from . import sglang_plugin", {"hygon_backend.sglang_plugin"}),
            (
                "from .vllm_plugin.worker import W",
                {"hygon_backend.vllm_plugin.worker", "hygon_backend.vllm_plugin.worker.W"},
            ),
            ("import importlib\nimportlib.import_module('vllm')", {"vllm"}),
            ("__import__('sglang')", {"sglang"}),
        ],
    )
    def test_core(self, source: str, found: set[str]) -> None:
        assert core_violations(source, "hygon_backend.fake") == found

    def test_core_may_use_torch_the_standard_library_and_itself(self) -> None:
        source = (
            "import torch.nn.functional\nimport os.path\nfrom hygon_backend import ops\nfrom . import errors"
        )
        assert core_violations(source, "hygon_backend.fake") == set()

    def test_relative_imports_resolve_from_modules_and_packages(self) -> None:
        source = "from ..vllm_plugin import x"
        found = {"hygon_backend.vllm_plugin", "hygon_backend.vllm_plugin.x"}
        assert core_violations(source, "hygon_backend.torch_path.gather") == found
        assert core_violations(source, "hygon_backend.torch_path", is_package=True) == found

    @pytest.mark.parametrize(
        ("adapter", "source", "found"),
        [
            ("vllm_plugin", "import sglang.srt", {"sglang.srt"}),
            ("vllm_plugin", "from hygon_backend import sglang_plugin", {"hygon_backend.sglang_plugin"}),
            ("sglang_plugin", "import vllm", {"vllm"}),
            (
                "sglang_plugin",
                "from ..vllm_plugin import a",
                {"hygon_backend.vllm_plugin", "hygon_backend.vllm_plugin.a"},
            ),
        ],
    )
    def test_adapter(self, adapter: str, source: str, found: set[str]) -> None:
        assert adapter_violations(source, f"hygon_backend.{adapter}.fake", adapter) == found

    def test_adapter_may_use_its_engine_and_the_core(self) -> None:
        source = "import vllm.config\nfrom hygon_backend import ops\nfrom . import worker"
        assert adapter_violations(source, "hygon_backend.vllm_plugin.fake", "vllm_plugin") == set()

    @pytest.mark.parametrize(
        "header",
        ["torch/extension.h", "ATen/ATen.h", "c10/util/Half.h", "Python.h", "pybind11/pybind11.h"],
    )
    def test_includes(self, header: str) -> None:
        for line in (f"#include <{header}>", f'  # include "{header}"'):
            assert include_violations(f"// text\n{line}\nint x;\n") == [header]

    def test_includes_that_are_fine(self) -> None:
        assert include_violations('#include <cstdint>\n#include "detail/wave.h"\n') == []

    def test_there_is_something_to_check(self) -> None:
        names = [describe(path)[0] for path in python_files()]
        assert {"hygon_backend", "hygon_backend.ops", "hygon_backend.torch_path.gather"} <= set(names)
        assert {f"hygon_backend.{adapter}.attention" for adapter in ADAPTERS} <= set(names)
