# Everything that a user or a developer runs; `make` alone lists it.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

BIN := .venv/vllm/bin
PORT ?= 8000
ARGS ?=
# Asked for late, so that HYGON_BACKEND_CACHE is honoured and `make help` starts nothing.
MODEL = $(shell $(BIN)/python tools/make_model.py --print-path)
CXX_FILES = $(shell find csrc $(wildcard build_support tests) -name '*.h' -o -name '*.cpp' -o -name '*.hip' -o -name '*.cu')

# With this set to "cpu", vLLM looks at no platform plugin, so ours would never run.
ifdef VLLM_TARGET_DEVICE
$(info VLLM_TARGET_DEVICE=$(VLLM_TARGET_DEVICE) is set: ignoring it, since it can hide platform plugins from vLLM)
unexport VLLM_TARGET_DEVICE
endif

.PHONY: help demo serve test test-full amd lint format clean env model amd-compiler

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

demo: model ## Set up, then answer questions with stock vLLM through this package
	@$(BIN)/python tools/demo_vllm.py "$(MODEL)" $(ARGS)

serve: model ## Set up, then serve the OpenAI API on 127.0.0.1 (PORT=8000, ARGS="more vLLM flags")
	@VLLM_CPU_KVCACHE_SPACE=1 HF_HUB_OFFLINE=1 VLLM_NO_USAGE_STATS=1 $(BIN)/vllm serve "$(MODEL)" \
	  --served-model-name smollm2 --dtype float32 --enforce-eager --max-model-len 8192 \
	  --host 127.0.0.1 --port $(PORT) $(ARGS)

test: model lint amd-compiler ## Set up, lint and run the tests, without the slow sweeps (ARGS="-k decode")
	@$(BIN)/python -m pytest -m "not full" --timeout 600 $(ARGS)

test-full: model lint amd-compiler ## Set up, lint and run every test
	@$(BIN)/python -m pytest $(ARGS)

amd: env amd-compiler ## Compile the kernels for AMD chips and write docs/amd_resources.md
	@$(BIN)/python tools/amd_resources.py

lint: env ## Check style, types and formatting
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(if $(CXX_FILES),$(BIN)/clang-format --dry-run -Werror $(CXX_FILES))

format: env ## Apply the formatting that lint checks
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(if $(CXX_FILES),$(BIN)/clang-format -i $(CXX_FILES))

clean: ## Remove the environment and all that was built (the model stays in the user's cache)
	rm -rf .venv .cache .hypothesis .mypy_cache .pytest_cache .ruff_cache build dist *.egg-info
	find hygon_backend tests tools -name __pycache__ -prune -exec rm -rf {} + -o -name '*.so' -exec rm -f {} +

env:
	@tools/setup_env.sh vllm

amd-compiler:
	@tools/setup_amd.sh

model: env
	@tools/steps.sh "model (540 MB, once)" $(BIN)/python tools/make_model.py
