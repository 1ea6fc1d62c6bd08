#!/usr/bin/env bash
# Packs the peers of benchmarks/paged_decode.py for a measuring machine that reaches no package index.
#
# Usage: benchmarks/collect_peers.sh [FOLDER]      (needs .venv/vllm, from `make env`, and nvcc 13)
#
# Writes FOLDER/peers.tar.xz (default .device_carry, which git ignores). On the measuring machine:
#   mkdir site && tar -C site -xf FOLDER/peers.tar.xz && python3 -m benchmarks.paged_decode --peer-packages site
#
# The archive (35 MB) holds the published Python code of the three peers, unmodified, less subtrees that attention
# never imports; the packages they import; and FlashInfer's kernels, compiled here from its own sources so
# that no time on the card goes into that. Where the index can be reached, installing the peers with pip and
# leaving out --peer-packages does the same.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

out=${1:-.device_carry}
python_version=${PYTHON_VERSION:-3.12} # of the measuring machine
cuda_arch=${CUDA_ARCH:-9.0a}           # likewise
python=.venv/vllm/bin/python
work=.cache/peers

# FlashInfer is the newest, not the older one that SGLang pins: a peer is measured at its best.
peers=(sglang==0.5.23 flashinfer-python==0.7.4)
# What importing the peers' attention code was seen to import, nothing more.
packages=(packaging regex orjson psutil pybase64 requests urllib3 idna certifi charset-normalizer pillow
  starlette anyio msgspec pydantic pydantic-core typing-inspection annotated-types pyzmq tqdm ipython==9.18.1
  traitlets==5.16.1 pygments aiohttp multidict attrs yarl propcache aiohappyeyeballs aiosignal frozenlist
  filelock apache-tvm-ffi nvidia-ml-py==13.615.71)
# Paths inside the packages that take most of their size and play no part in attention.
unused=(vllm/models vllm/model_executor/models sglang/multimodal_gen sglang/srt/models sglang/test
  sglang/benchmark sglang/srt/rust_extensions flashinfer/data flashinfer/moe_ep
  flashinfer/fused_moe/backends/cudnn_frost/artifacts flashinfer/experimental/b12x
  flashinfer/experimental/qwen_3_5_block)

download() {
  local platforms=() release
  for release in 17 24 27 28 31 34; do platforms+=(--platform "manylinux_2_${release}_x86_64"); done
  "$python" -m pip download --quiet --no-deps --only-binary=:all: --constraint constraints/vllm.txt \
    --implementation cp --python-version "$python_version" "${platforms[@]}" --platform manylinux2014_x86_64 \
    --dest "$work/wheels" "$@"
}

# Compiles the two modules that decoding bfloat16 with head size 128 needs, as FlashInfer would on first use,
# and puts them where it looks for kernels compiled ahead of time.
compile_flashinfer() {
  # Its link command names libcuda, which only a machine with a card has; the kernels call nothing in it.
  mkdir -p "$work/stubs"
  echo | gcc -shared -x c - -o "$work/stubs/libcuda.so" -Wl,-soname,libcuda.so.1
  LIBRARY_PATH="$PWD/$work/stubs" CUDA_HOME=$1 FLASHINFER_CUDA_ARCH_LIST=$cuda_arch \
    FLASHINFER_WORKSPACE_BASE="$PWD/$work" PYTHONPATH="$work/flashinfer" "$python" - <<'PYTHON'
import shutil

import torch
from flashinfer.jit import env
from flashinfer.jit.attention.modules import _gen_batch_prefill_primary_module, gen_batch_decode_module

bf16 = torch.bfloat16
key = (bf16, bf16, bf16, torch.int32, 128, 128, 0, False, False)
for spec in (gen_batch_decode_module(*key), _gen_batch_prefill_primary_module("fa2", *key, False, False)):
    spec.build()
    target = env.FLASHINFER_AOT_DIR / spec.name
    target.mkdir(parents=True, exist_ok=True)
    shutil.copy(spec.jit_library_path, target)
PYTHON
}

# nvcc itself says where it lives: what is on PATH may be a link or a launcher script.
cuda_home=$(nvcc --dryrun -x cu -E /dev/null 2>&1 | sed -n 's/^#\$ TOP=//p')

rm -rf "$work/wheels" "$work/site" "$work/flashinfer"
mkdir -p "$work/site" "$work/flashinfer" "$out"
download "${peers[@]}" "${packages[@]}"

for wheel in "$work"/wheels/*.whl; do
  case $wheel in
    */flashinfer_python-* | */nvidia_ml_py-*) "$python" -m zipfile -e "$wheel" "$work/flashinfer" ;;&
    *) "$python" -m zipfile -e "$wheel" "$work/site" ;;
  esac
done
cp -r .venv/vllm/lib/python3*/site-packages/vllm{,-0.33.0.dist-info} "$work/site"
for path in "${unused[@]}"; do rm -rf "${work:?}/site/$path"; done
find "$work/site" -name __pycache__ -prune -exec rm -rf {} +
# Sources of kernels other than attention, which would be compiled where they are used, and lists of files.
find "$work/site" \( -name '*.cu' -o -name '*.cuh' -o -name '*.h' -o -name '*.js' -o -name RECORD \) -delete

compile_flashinfer "$cuda_home"
# It writes out the sources of a module, from templates, before it looks for the compiled one.
data=flashinfer/data
mkdir -p "$work/site/$data/csrc"
cp -r "$work/flashinfer/$data/aot" "$work/site/$data"
cp "$work/flashinfer/$data"/csrc/batch_{decode,prefill}* "$work/site/$data/csrc"

XZ_OPT=-T0 tar -C "$work/site" -cJf "$out/peers.tar.xz" .
du -h "$out/peers.tar.xz"
