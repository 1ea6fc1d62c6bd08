#!/usr/bin/env bash
# Installs the compiler that shows what the kernels need on AMD chips: clang 19 with ROCm's device
# libraries and HIP's headers, from Debian. No card and no driver. Quick when everything is there.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=tools/steps.sh
source tools/steps.sh

packages=(clang-19 lld-19 llvm-19 rocm-device-libs libamdhip64-dev libclang-rt-19-dev)

# What build_support/amd_compiler.py uses of each package; a clang from elsewhere counts too.
is_complete() {
  local tool
  for tool in clang-19 llvm-cxxfilt-19 ld.lld-19; do
    command -v "$tool" >/dev/null || return 1
  done
  [[ -e /usr/include/hip/hip_runtime.h ]] &&
    compgen -G '/usr/lib/*/amdgcn/bitcode/ocml.bc' >/dev/null
}

apt_install() {
  apt-get update
  DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "$@"
}

if is_complete; then exit 0; fi
if ((EUID != 0)) || ! command -v apt-get >/dev/null; then
  echo "setup: please install these first (Debian's names): ${packages[*]}" >&2
  exit 1
fi
steps_begin 1
step "compiler for AMD chips: ${packages[*]}" apt_install "${packages[@]}"
if ! is_complete; then
  echo "setup: the packages are installed, but clang-19, HIP's headers or ROCm's device libraries are not found" >&2
  exit 1
fi
