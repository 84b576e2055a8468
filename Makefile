# Every routine command of the project. `make` alone lists them.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/installed.stamp
AGENTS := tests/agents/node_modules/installed.stamp
VLLM_VENV := .venv-vllm
VLLM := $(VLLM_VENV)/installed.stamp

# Versions for pip, for the isolated builds that it starts, and for `python -m build`.
export PIP_CONSTRAINT := $(CURDIR)/constraints.txt
export PIP_BUILD_CONSTRAINT := $(CURDIR)/constraints.txt
export PIP_DISABLE_PIP_VERSION_CHECK := 1
# Makefile targets must mean the same inside and outside of somebody's active environment.
unexport PYTHONPATH VIRTUAL_ENV

# What an installation is made of. `deepinfer` is installed editable, so its modules are not among them.
INSTALL_INPUTS := pyproject.toml hatch_build.py constraints.txt Cargo.toml Cargo.lock \
	recipe/Cargo.toml $(shell find recipe/src recipe/data -type f 2>/dev/null) \
	$(shell find recipe-py -type f -not -name '*.so' -not -name '*.pyc' 2>/dev/null)

FUZZ_TARGETS := $(patsubst fuzz/fuzz_targets/%.rs,%,$(wildcard fuzz/fuzz_targets/*.rs))
FUZZ_HOST = $(shell rustc -vV | sed -n 's/^host: //p')
# What cargo-fuzz passes to instrument code for libFuzzer, less what needs a nightly compiler.
FUZZ_RUSTFLAGS := --cfg fuzzing -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
	-Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
	-Cllvm-args=-sanitizer-coverage-trace-compares
FUZZ_TARGET_DIR := $(or $(CARGO_TARGET_DIR),target)/fuzz
FUZZ_RUN = $(FUZZ_TARGET_DIR)/$(FUZZ_HOST)/release
FUZZ_HTTP_VENV := .venv-fuzz
# A second to load a tokenizer, generous memory; anything slower or larger is a finding.
FUZZ_OPTIONS := -timeout=10 -rss_limit_mb=2048 -print_final_stats=1

.PHONY: help setup serve test test-rust test-laws test-asan test-python test-agents test-vllm test-structured-long test-training check format build bench bench-codec bench-structured soak fuzz fuzz-build fuzz-check fuzz-http clean tools

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-20s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(INSTALLED) ## Create .venv and install both packages with everything that development needs

serve: $(INSTALLED) ## Set up if needed, then run `deepinfer serve`; options: make serve ARGS="--port 9000"
	@$(BIN)/deepinfer serve $(ARGS)

test: test-rust test-python ## Set up if needed, then run every test; FAST=1 leaves the slow ones out

test-rust: tools ## Run the tests and the documentation examples of the Rust crates
	cargo test

test-laws: tools ## Try the laws of the codec on many more random inputs than the tests do: make test-laws CASES=1000000
	PROPTEST_CASES=$(or $(CASES),100000) cargo test --release -p recipe $(ARGS)

test-asan: tools ## Run the tokenizer's tests under AddressSanitizer
	RUSTC_BOOTSTRAP=1 RUSTFLAGS=-Zsanitizer=address CARGO_TARGET_DIR='$(or $(CARGO_TARGET_DIR),target)/asan' \
		cargo test -p recipe --lib --target $(FUZZ_HOST) tokenizer

test-python: $(INSTALLED) ## Run the Python tests; options: make test-python FAST=1 ARGS="-k name"
	$(BIN)/pytest -m "not agents and not vllm and not training$(if $(FAST), and not slow)" $(ARGS)

test-agents: $(INSTALLED) $(AGENTS) ## Install Claude Code, Codex and OpenCode below tests/agents, and run them against a local server
	$(BIN)/pytest -m agents tests/agents $(ARGS)

test-vllm: $(INSTALLED) $(VLLM) ## Install vLLM into .venv-vllm, 5 GB, and run the gateway against it
	$(BIN)/pytest -m vllm tests/vllm $(ARGS)

check: $(INSTALLED) ## Run every static check: format, lint, types, import rules, stubs
	cargo fmt --check
	cargo fmt --check --manifest-path fuzz/Cargo.toml
	cargo clippy --workspace --all-targets -- -D warnings
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo
	$(BIN)/python -m mypy.stubtest deepseek_recipe --allowlist recipe-py/stubtest-allowlist.txt

format: $(INSTALLED) ## Format all code and apply the linter's safe fixes
	cargo fmt
	cargo fmt --manifest-path fuzz/Cargo.toml
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

build: $(INSTALLED) ## Build both wheels and both source distributions into dist/
	rm -f recipe-py/python/deepseek_recipe/*.so dist/*
	$(BIN)/maturin build --release --sdist --out dist --manifest-path recipe-py/Cargo.toml
	$(BIN)/python -m build --outdir dist .
	@ls -l dist

bench: tools ## Run the benchmarks of the codec: requests, outputs
	cargo bench -p recipe
	cargo run --release -p recipe --example output_cost

bench-codec: $(INSTALLED) ## Compare our tokenizer with its peers from the package index; options: make bench-codec ARGS="--rounds 3"
	rm -rf target/bench-codec/wheel
	$(BIN)/maturin build --release --out target/bench-codec/wheel --manifest-path recipe-py/Cargo.toml
	$(BIN)/python recipe/benches/codec/run.py $(ARGS) target/bench-codec/wheel/*.whl

bench-structured: $(INSTALLED) ## Measure what grammars and masks of structured output cost
	$(BIN)/python -m benchmarks.structured costs $(ARGS)

soak: $(INSTALLED) ## Load a gateway with streams, hang-ups and broken bodies: make soak SECONDS=600
	$(BIN)/python -m benchmarks.soak --seconds $(or $(SECONDS),600) $(ARGS)

test-training: $(INSTALLED) ## Train a tiny model for two minutes and print the losses
	$(BIN)/pytest -m training -s tests/model

test-structured-long: $(INSTALLED) ## Run 1,500 generated requests for structured output; takes half an hour
	$(BIN)/python -m benchmarks.structured answers $(ARGS)

fuzz: fuzz-build ## Fuzz one target: make fuzz TARGET=name SECONDS=600
	@$(if $(TARGET),,echo "Which one? make fuzz TARGET=name, of: $(FUZZ_TARGETS)" >&2; exit 2)
	mkdir -p fuzz/corpus/$(TARGET) fuzz/artifacts/$(TARGET)
	$(FUZZ_RUN)/$(TARGET) $(FUZZ_OPTIONS) $(if $(SECONDS),-max_total_time=$(SECONDS)) \
		-artifact_prefix=fuzz/artifacts/$(TARGET)/ fuzz/corpus/$(TARGET) $(wildcard fuzz/seeds/$(TARGET))

fuzz-build: tools ## Build all fuzz targets
	RUSTFLAGS='$(FUZZ_RUSTFLAGS)' CARGO_TARGET_DIR='$(FUZZ_TARGET_DIR)' \
		cargo build --manifest-path fuzz/Cargo.toml --release --bins --target $(FUZZ_HOST)

fuzz-check: fuzz-build ## Build all fuzz targets and run each for 20 seconds
	@for target in $(FUZZ_TARGETS); do \
		echo "fuzz $$target"; mkdir -p fuzz/corpus/$$target fuzz/artifacts/$$target; \
		$(FUZZ_RUN)/$$target $(FUZZ_OPTIONS) -seed=1 -max_total_time=20 -artifact_prefix=fuzz/artifacts/$$target/ \
			fuzz/corpus/$$target $$(ls -d fuzz/seeds/$$target 2>/dev/null) 2>$(FUZZ_TARGET_DIR)/$$target.log || { tail -n 40 $(FUZZ_TARGET_DIR)/$$target.log; exit 1; }; \
		grep -E '^stat::(number_of_executed_units|peak_rss_mb)' $(FUZZ_TARGET_DIR)/$$target.log; \
	done

fuzz-http: $(INSTALLED) $(FUZZ_HTTP_VENV)/bin/st ## Fuzz the HTTP server: make fuzz-http SECONDS=600
	$(BIN)/python fuzz/server/search.py $(abspath $(FUZZ_HTTP_VENV))/bin/st $(or $(SECONDS),600)

# Apart from the project's own environment: it only speaks HTTP to the server.
$(FUZZ_HTTP_VENV)/bin/st:
	$(PYTHON) -m venv $(FUZZ_HTTP_VENV)
	$(FUZZ_HTTP_VENV)/bin/pip install "schemathesis==4.32.5"

clean: ## Remove all that was built or installed here
	rm -rf $(VENV) $(VLLM_VENV) $(FUZZ_HTTP_VENV) target dist build .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	rm -rf tests/agents/node_modules
	rm -rf fuzz/target fuzz/artifacts recipe-py/python/deepseek_recipe/*.so

tools: ## Say which tools of the machine are missing, and what to do about it
	@.ci/tools $(PYTHON)

# One command for both: pip then takes the codec from here, never the older one of the public index.
$(INSTALLED): $(INSTALL_INPUTS) | tools
	[ -x $(BIN)/pip ] || $(PYTHON) -m venv $(VENV)
	rm -f recipe-py/python/deepseek_recipe/*.so
	$(BIN)/pip install ./recipe-py --editable '.[serve,dev]'
	touch $@

# The agents' programs lie in packages of the registry. Of their scripts only the one that puts Claude Code in place runs.
$(AGENTS): tests/agents/package.json tests/agents/package-lock.json
	cd tests/agents && npm ci --ignore-scripts --no-fund --no-audit
	cd tests/agents && node node_modules/@anthropic-ai/claude-code/install.cjs
	cd tests/agents && node node_modules/opencode-ai/postinstall.mjs
	touch $@

# Its versions are its own. All are named, so pip has nothing to resolve; Python compiles what is imported, no more.
$(VLLM): tests/vllm/requirements.txt
	rm -rf $(VLLM_VENV)
	$(PYTHON) -m venv $(VLLM_VENV)
	env -u PIP_CONSTRAINT $(VLLM_VENV)/bin/pip install --no-deps --no-compile --requirement $<
	touch $@
