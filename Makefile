# `make demo` and `make test` do all of their own set-up: a virtual environment in .venv with the package in it.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
JOBS ?= 2

.PHONY: help demo test lint clean
help:
	@echo "make demo   optimise ResNet-50 for this CPU, run it, compare with float64 and onnxruntime"
	@echo "make test   lint, types, all tests with coverage"

$(BIN)/python:
	$(PYTHON) -c 'import sys; sys.exit("autocomp needs Python 3.11 or newer, this is %d.%d" % sys.version_info[:2] if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv $(VENV)

$(VENV)/.demo: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[demo]'
	@touch $@

$(VENV)/.test: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[test]'
	@touch $@

demo: $(VENV)/.demo
	$(BIN)/python -m examples.resnet50

lint: $(VENV)/.test
	$(BIN)/ruff check .
	$(BIN)/mypy

test: $(VENV)/.test lint
	$(BIN)/python -m pytest -n $(JOBS) --dist worksteal --cov=autocomp --cov-report=term:skip-covered

clean:
	rm -rf $(VENV) build dist *.egg-info out
