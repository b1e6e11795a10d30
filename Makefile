# `make demo` and `make test` do all of their own set-up: a virtual environment in .venv with the package in it.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
JOBS ?= 2
HOURS ?= 1
TORCH ?=

.PHONY: help demo test test-all cover test-fast tools lint fmt bench golden docs soak clean
help:
	@echo "make demo            optimise ResNet-50 for this CPU, run it, compare with float64 and onnxruntime"
	@echo "make test            lint, types, all tests; the last line says which were left out, and why"
	@echo "make test-all        the same with the cases that repeat another: more chips, types, sizes, seeds (a third longer)"
	@echo "make cover           the same with lines of the package that no test reaches (half as long again)"
	@echo "make test TORCH=1    the same with torch, whose front end is tested too (what CI runs)"
	@echo "make test-fast       lint and the quick tests: data, legality, tile programs, docs"
	@echo "make fmt             what ruff can mend: order of imports, old forms"
	@echo "make golden          tests/golden written anew"
	@echo "make docs            what docs quote of the code, written anew"
	@echo "make bench           CPU kernels against their peers"
	@echo "make tools           Debian's compilers for the tests of other machines: clang-19 (MACA), a cross gcc and qemu (NEON); as root"
	@echo "make soak HOURS=1    all fuzzers; goes on where it was stopped, keeps what failed in fuzz_failures/"

$(BIN)/python:
	$(PYTHON) -c 'import sys; sys.exit("autocomp needs Python 3.11 or newer, this is %d.%d" % sys.version_info[:2] if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv $(VENV)

$(VENV)/.demo: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[demo]'
	@touch $@

$(VENV)/.test: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[test]'
	@touch $@

$(VENV)/.torch: $(VENV)/.test
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[test,torch]'
	@touch $@

demo: $(VENV)/.demo
	$(BIN)/python -m examples.resnet50

lint: $(VENV)/.test
	$(BIN)/ruff check .
	$(BIN)/mypy

test: $(VENV)/$(if $(TORCH),.torch,.test) lint
	$(BIN)/python -m pytest -n $(JOBS) --dist worksteal

test-all: $(VENV)/$(if $(TORCH),.torch,.test) lint
	$(BIN)/python -m pytest -n $(JOBS) --dist worksteal -m ""

cover: $(VENV)/.torch
	$(BIN)/python -m pytest -n $(JOBS) --dist worksteal --cov=autocomp --cov-report=term:skip-covered

test-fast: $(VENV)/.test lint
	$(BIN)/python -m pytest -n $(JOBS) tests/test_layout.py tests/ir tests/tile tests/legality tests/docs

fmt: $(VENV)/.test
	$(BIN)/ruff check --fix .

bench: $(VENV)/.test
	$(BIN)/python benchmarks/cpu.py

golden: $(VENV)/.test
	AUTOCOMP_GOLDEN=write $(BIN)/python -m pytest $(shell grep -rl AUTOCOMP_GOLDEN tests/targets --include=*.py) -k "as_it_was or golden"

docs: $(VENV)/.test
	$(BIN)/python docs/generate.py

TOOLS := clang-19 gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user-static
tools:
	apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $(TOOLS)

soak: $(VENV)/.torch
	$(BIN)/python -m benchmarks.fuzz.soak --hours $(HOURS) --jobs $(JOBS)

clean:
	rm -rf $(VENV) build dist *.egg-info out
