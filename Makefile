# `make run` sets up and does the main job; `make test` sets up and runs every test. Both start from a bare checkout.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
SOURCES := setup.py pyproject.toml $(wildcard asm/*) $(wildcard setebench/core/*.p[xy][xdi] setebench/core/*.c setebench/core/*.h)

.PHONY: run test check format docs clean

run: $(VENV)/installed
	$(BIN)/setebench characterize --report report.html --force

# what measures this CPU runs with nothing beside it, the rest on two CPUs (a file's tests share what they set up)
test: check
	$(BIN)/python -m pytest -q tests/hardware
	$(BIN)/python -m pytest -q -n 2 --dist loadfile --ignore tests/hardware

docs: $(VENV)/installed-for-docs
	$(BIN)/mkdocs build --quiet --strict
	@echo "the site begins at build/site/index.html"

check: $(VENV)/installed-for-tests
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	PATH="$(CURDIR)/$(BIN):$$PATH" cython-lint setebench/core
	$(BIN)/codespell README.md CHANGELOG.md CONTRIBUTING.md asm benchmarks docs scenarios setebench tests

format: $(VENV)/installed-for-tests
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "setebench needs Python 3.11 or newer; name one with make PYTHON=..." >&2; exit 1; }
	@command -v gcc >/dev/null || { echo "setebench needs gcc to build its core; install it first (on Debian: apt-get install gcc)" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/installed: $(BIN)/python $(SOURCES)
	$(BIN)/python -m pip install --quiet --editable .
	@touch $@

$(VENV)/installed-for-tests: $(VENV)/installed
	$(BIN)/python -m pip install --quiet --editable '.[test]'
	@touch $@

$(VENV)/installed-for-docs: $(VENV)/installed
	$(BIN)/python -m pip install --quiet --editable '.[docs]'
	@touch $@

clean:
	rm -rf $(VENV) build dist *.egg-info setebench/core/_engine.c setebench/core/*.so
