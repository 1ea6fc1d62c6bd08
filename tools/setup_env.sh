#!/usr/bin/env bash
# Creates .venv/vllm or .venv/sglang: the stock engine without compiled kernels, the developer tools
# and this package.
#
# Usage: tools/setup_env.sh vllm|sglang
#
# Quick when nothing changed. An environment that was interrupted half way, or made from other
# constraints or in another folder, is removed and made again.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"
# shellcheck source=tools/steps.sh
source tools/steps.sh

if [[ $# -ne 1 || ! $1 =~ ^(vllm|sglang)$ ]]; then
  echo "usage: tools/setup_env.sh vllm|sglang" >&2
  exit 2
fi

engine=$1
venv=".venv/$engine"
constraints="constraints/$engine.txt"
env_stamp="$venv/.stamp-environment"
package_stamp="$venv/.stamp-package"
extension_stamp=".cache/stamp-extension"
python=${PYTHON:-python3}

die() {
  echo "setup: $*" >&2
  exit 1
}

stamp_matches() {
  [[ -f $1 && $(<"$1") == "$2" ]]
}

# Hashes what the environment depends on. Scripts in an environment and the editable install hold
# absolute paths, so a moved or copied checkout needs a new environment.
environment_key() {
  { cat "$constraints" tools/setup_env.sh && pwd; } | sha256sum | cut -d ' ' -f 1
}

# Hashes what the compiled part of the package depends on; the Python part is used in place. Python
# and torch belong to it: the module in the source folder serves every environment that has the same.
package_key() {
  {
    find setup.py pyproject.toml build_support csrc -type f -not -path '*/__pycache__/*' -print0 | sort -z |
      xargs -0 sha256sum
    printf '%s\n' "${HYGON_BACKEND_TARGET-}" "${PYTORCH_ROCM_ARCH-}" "${CXX-}" "${CXXFLAGS-}" "${LDFLAGS-}"
    "$venv/bin/python" -c 'import sys; from importlib.metadata import version; print(sys.version, version("torch"))'
  } | sha256sum | cut -d ' ' -f 1
}

# The module lies in the source folder, where cleaning up can remove it without touching the stamps,
# and where another environment may have built it anew with another Python or torch.
package_is_built() {
  local key
  key=$(package_key)
  stamp_matches "$package_stamp" "$key" && stamp_matches "$extension_stamp" "$key" &&
    compgen -G 'hygon_backend/_C.*.so' >/dev/null
}

# Prints the Debian packages that are missing.
missing_packages() {
  command -v "$python" >/dev/null || echo python3
  "$python" -c 'import ensurepip, venv' 2>/dev/null || echo python3-venv
  "$python" -c 'import os, sysconfig; os.stat(sysconfig.get_path("include") + "/Python.h")' 2>/dev/null ||
    echo python3-dev
  command -v g++ >/dev/null || echo g++
  command -v make >/dev/null || echo make
}

apt_install() {
  apt-get update
  DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "$@"
}

pip_install() {
  "$venv/bin/python" -m pip install --disable-pip-version-check --no-input --progress-bar off \
    --constraint "$constraints" "$@"
}

# `empty` builds vLLM's Python part alone: this package brings the platform. The published wheel is
# avoided because it brings CUDA.
install_vllm() {
  VLLM_VERSION_OVERRIDE=0.33.0 VLLM_TARGET_DEVICE=empty \
    pip_install --no-build-isolation --no-binary vllm vllm==0.33.0
}

# Comes through xgrammar, takes 1 GB of disk and is unused on a CPU.
remove_triton() {
  "$venv/bin/python" -m pip uninstall --yes triton
}

# SGLang declares its CUDA build's dependencies, another torch among them: none of those is installed.
# triton is imported by SGLang's modules of kernels, which are never launched here.
install_sglang() {
  pip_install --no-deps sglang==0.5.23 apache-tvm-ffi triton xgrammar
}

# What SGLang imports to serve a text model.
install_sglang_dependencies() {
  pip_install IPython aiohttp anthropic cloudpickle compressed-tensors dill einops fastapi gguf \
    interegular jsonschema llguidance msgspec numpy openai openai-harmony orjson partial_json_parser pillow \
    prometheus-client psutil pybase64 pydantic python-dateutil python-multipart pyzmq regex requests \
    safetensors scipy sentencepiece setproctitle soundfile tiktoken tokenizers tqdm transformers uvicorn uvloop \
    watchfiles xxhash zstandard
}

install_vllm_tools() {
  pip_install gguf accelerate numpy httpx aiohttp pytest pytest-timeout hypothesis ruff mypy clang-format
}

install_sglang_tools() {
  pip_install accelerate httpx pytest pytest-timeout hypothesis
}

install_system_packages() {
  local missing
  mapfile -t missing < <(missing_packages)
  if ((${#missing[@]} == 0)); then return; fi
  if ((EUID != 0)) || ! command -v apt-get >/dev/null; then
    die "please install these first (Debian's names): ${missing[*]}"
  fi
  steps_begin 1
  step "system packages: ${missing[*]}" apt_install "${missing[@]}"
  mapfile -t missing < <(missing_packages)
  if ((${#missing[@]} != 0)); then
    die "$(command -v "$python") still lacks what Debian's ${missing[*]} would bring: use another python3 by setting PYTHON"
  fi
}

# The bounds are vLLM 0.33.0's; SGLang's environment has the same, so that one python3 serves both.
check_python() {
  "$python" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 15))' ||
    die "$engine needs Python 3.11 to 3.14, and $python is $("$python" --version 2>&1): choose another with PYTHON=..."
}

vllm_steps() {
  steps_begin 5
  step "python environment" "$python" -m venv "$venv"
  step "torch and build tools" pip_install torch==2.13.0 "setuptools>=77.0.3,<81" setuptools_scm \
    setuptools-rust cmake ninja packaging wheel jinja2 pybind11
  step "vLLM 0.33.0" install_vllm
  step "remove triton (1 GB, unused on a CPU)" remove_triton
  step "test and lint tools" install_vllm_tools
}

sglang_steps() {
  steps_begin 5
  step "python environment" "$python" -m venv "$venv"
  step "torch and build tools" pip_install torch==2.13.0 "setuptools>=77.0.3,<81" ninja packaging wheel pybind11
  step "SGLang 0.5.23" install_sglang
  step "what SGLang imports" install_sglang_dependencies
  step "test tools" install_sglang_tools
}

create_environment() {
  if [[ -e $venv ]]; then
    echo "setup: $venv is unfinished or out of date: removing it and making it again"
    rm -rf "$venv"
  fi
  echo "setup: making $venv (some minutes and 2 to 3 GB, once)"
  "${engine}_steps"
  environment_key >"$env_stamp"
}

install_package() {
  steps_begin 1
  step "hygon_backend (editable)" pip_install --no-build-isolation --no-deps --editable .
  package_key >"$package_stamp"
  mkdir -p "$(dirname "$extension_stamp")"
  package_key >"$extension_stamp"
}

install_system_packages
check_python
stamp_matches "$env_stamp" "$(environment_key)" || create_environment
package_is_built || install_package
echo "setup: $venv is ready"
