# Everything that a user or a developer runs; `make` alone lists it.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

BIN := .venv/vllm/bin
SGLANG_BIN := .venv/sglang/bin
PORT ?= 8000
ARGS ?=
# Asked for late, so that HYGON_BACKEND_CACHE is honoured and `make help` starts nothing.
MODEL = $(shell $(BIN)/python tools/make_model.py --print-path)
SGLANG_MODEL = $(shell $(SGLANG_BIN)/python tools/make_model.py --print-path)
CXX_FILES = $(shell find csrc $(wildcard build_support tests) -name '*.h' -o -name '*.cpp' -o -name '*.hip' -o -name '*.cu')

# With this set to "cpu", vLLM looks at no platform plugin, so ours would never run.
ifdef VLLM_TARGET_DEVICE
$(info VLLM_TARGET_DEVICE=$(VLLM_TARGET_DEVICE) is set: ignoring it, since it can hide platform plugins from vLLM)
unexport VLLM_TARGET_DEVICE
endif

.PHONY: help demo demo-sglang serve serve-sglang test test-full test-vllm test-sglang amd lint format clean env env-sglang model model-sglang amd-compiler

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

demo: model ## Set up, then answer questions with stock vLLM through this package
	@$(BIN)/python tools/demo_vllm.py "$(MODEL)" $(ARGS)

demo-sglang: model-sglang ## Set up, then answer the same questions with stock SGLang
	@$(SGLANG_BIN)/python tools/demo_sglang.py "$(SGLANG_MODEL)" $(ARGS)

serve: model ## Set up, then serve the OpenAI API on 127.0.0.1 (PORT=8000, ARGS="more vLLM flags")
	@VLLM_CPU_KVCACHE_SPACE=1 HF_HUB_OFFLINE=1 VLLM_NO_USAGE_STATS=1 $(BIN)/vllm serve "$(MODEL)" \
	  --served-model-name smollm2 --dtype float32 --enforce-eager --max-model-len 8192 \
	  --host 127.0.0.1 --port $(PORT) $(ARGS)

serve-sglang: model-sglang ## The same with SGLang (PORT=8000, ARGS="more SGLang flags")
	@HF_HUB_OFFLINE=1 $(SGLANG_BIN)/python -m sglang.launch_server --model-path "$(SGLANG_MODEL)" \
	  --served-model-name smollm2 --dtype float32 --attention-backend hygon --context-length 8192 \
	  --page-size 64 --max-total-tokens 23296 --host 127.0.0.1 --port $(PORT) $(ARGS)

test: lint amd-compiler test-vllm test-sglang ## Set up, lint and run the tests, without the slow sweeps (ARGS="-k decode")

test-vllm: model amd-compiler ## Set up and run all tests but SGLang's
	@$(call run_tests,$(BIN),-m "not full" --timeout 600)

test-sglang: model-sglang ## Set up and run SGLang's tests
	@$(call run_tests,$(SGLANG_BIN),-m "not full" --timeout 600)

test-full: lint amd-compiler model model-sglang ## Set up, lint and run every test
	@$(call run_tests,$(BIN))
	@$(call run_tests,$(SGLANG_BIN))

# Each environment collects the tests it can run (tests/conftest.py); exit status 5 says that ARGS chose
# none of them.
define run_tests
$(1)/python -m pytest $(2) $(ARGS) || [[ $$? == 5 ]]
endef

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

env-sglang:
	@tools/setup_env.sh sglang

amd-compiler:
	@tools/setup_amd.sh

model: env
	@tools/steps.sh "model (540 MB, once)" $(BIN)/python tools/make_model.py

model-sglang: env-sglang
	@tools/steps.sh "model (540 MB, once)" $(SGLANG_BIN)/python tools/make_model.py
