# The commands:
#
#   make demo   27 years of exchange rates, restored by Spark, joined as of each transaction's time
#   make test   tests of every module, within minutes; docs/contributing.md says which
#   make test-all  every test; REST=1 leaves out those of make test
#   make crash  kill writers, and look at what they leave: ROUNDS=, SEED=, ENGINE=
#   make interrupt  raise KeyboardInterrupt in calls, and see that the process goes on: ROUNDS=, SEED=
#   make fuzz   feed decoders with bytes that nobody wrote: RUNS=, SEED=
#
# Each makes .venv first where it is missing: a virtual environment with kstore, compiled in place, and
# all that its tests need. It is brought up to date when pyproject.toml, setup.py or a Cython source
# has changed. `make PYTHON=python3.13 test` makes it with another Python; JOBS=8 says how many
# processes share the tests, of which there are 3, or 4 for test-all, whose kills and brokers often
# wait; ARGS="-k codec" goes to pytest or to the demo.

PYTHON ?= python3
ARGS ?=
JOBS ?=
ROUNDS ?= 2000
RUNS ?= 10000000
SEED ?= 1
ENGINE ?= lmdb rocksdb
REST ?=

BIN := .venv/bin
READY := .venv/.ready
PYTEST = $(BIN)/python -m pytest --numprocesses $(or $(JOBS),$(1)) --dist loadfile --no-loadscope-reorder
SOURCES := pyproject.toml setup.py $(shell find kstore_core plugins \( -name '*.pyx' -o -name '*.pxd' \))

# Tests start thousands of processes. Each compiles the modules that it imports, unless one may keep them.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: usage demo test test-all crash interrupt fuzz
usage:
	@sed -n 's/^#   make /  make /p' Makefile

demo: $(READY)
	$(BIN)/kstore demo $(ARGS)

test: $(READY)
	$(call PYTEST,3) -m selected $(ARGS)

test-all: $(READY)
	$(call PYTEST,4) $(if $(REST),-m 'not selected') $(ARGS)

crash: $(READY)
	$(BIN)/python -m kstore_core.testing.killer --rounds $(ROUNDS) --seed $(SEED) \
	  $(addprefix --engine ,$(ENGINE)) $(ARGS)

interrupt: $(READY)
	$(BIN)/python -m kstore_core.testing.interrupter --rounds $(ROUNDS) --seed $(SEED) \
	  $(addprefix --engine ,$(ENGINE)) $(ARGS)

fuzz: $(READY)
	$(BIN)/python -m tests.fuzz --runs $(RUNS) --seed $(SEED) $(ARGS)

$(READY): $(SOURCES) | $(BIN)/python
	@echo "Installing kstore and all that its tests need into .venv; the first time takes minutes"
	@# The pip that comes with Python 3.11 takes twice as long to choose among the releases.
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade pip
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "kstore needs Python 3.11 or newer. Name one: make PYTHON=python3.13 test"; exit 1; }
	@echo "Making .venv with $$($(PYTHON) --version)"
	@$(PYTHON) -m venv .venv || { rm -rf .venv; echo; \
	  echo "$(PYTHON) cannot make a virtual environment, because its venv module is not whole."; \
	  echo "  Debian/Ubuntu: apt-get install python3-venv    Fedora: dnf install python3-pip"; \
	  exit 1; }
