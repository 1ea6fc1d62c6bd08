#!/usr/bin/env bash
# Builds for the card of this machine, then runs on it the operator cases, drawn calls, graph capture and,
# where NVIDIA's compute-sanitizer is, its four checkers.
#
# Usage: tools/card_check.sh FOLDER     (python3 with torch, pybind11, setuptools, hypothesis, pytest,
# pytest-timeout and pytest-xdist)
#
# Leaves one log a step in FOLDER; the exit status says whether all passed. HYGON_BACKEND_TARGET chooses the
# target where detection should not. DRAWS repeats the 2,000 drawn calls of each operator (default 3).
set -uo pipefail
# Many processes run side by side.
export OMP_NUM_THREADS=1
cd "$(dirname "${BASH_SOURCE[0]}")/.."

out=${1:?usage: tools/card_check.sh FOLDER}
python=${PYTHON:-python3}
mkdir -p "$out"
failed=0

# Runs one step beside the others; `finish` collects them.
declare -A pids
start() {
  local name=$1
  shift
  echo "card: $name ..."
  { echo "\$ $*" && date && "$@" && echo "passed: $name"; } >"$out/$name.log" 2>&1 &
  pids[$name]=$!
}
finish() {
  local name
  for name in "${!pids[@]}"; do
    if wait "${pids[$name]}"; then echo "card: $name passed"; else failed=1 && echo "card: $name FAILED, see $out/$name.log"; fi
    tail -n 3 "$out/$name.log"
    unset "pids[$name]"
  done
}

start build "$python" setup.py build_ext --inplace
finish
if ((failed)); then exit 1; fi

pytest=("$python" -m pytest -q -p no:cacheprovider --timeout 500)
start cases "${pytest[@]}" -n 6 -m "not full" -k "cuda and not differential" tests/cases --junitxml "$out/cases.xml"
start graphs "${pytest[@]}" tests/device --junitxml "$out/graphs.xml"
for draw in $(seq "${DRAWS:-3}"); do
  for operator in decode prefix_prefill ragged_prefill write; do
    name=drawn_${operator}_$draw
    start "$name" "${pytest[@]}" -m full -k "cuda and ${operator}_full" --hypothesis-seed "$draw" \
      tests/cases/test_differential.py --junitxml "$out/$name.xml"
  done
done
if command -v compute-sanitizer >/dev/null; then
  for tool in memcheck racecheck initcheck synccheck; do
    start "$tool" env PYTHONPATH=.:tests PYTORCH_NO_CUDA_MEMORY_CACHING=1 compute-sanitizer --tool "$tool" --error-exitcode 9 \
      "$python" tests/device/card_sweep.py
  done
fi
finish
tail -n 200 "$out"/*.log >"$out/all.txt"
exit "$failed"
