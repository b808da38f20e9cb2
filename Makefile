# Each target makes and reuses its own .venv from requirements.lock. Only Python 3.11+ and make are needed.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.stamp
COMPILED := $(VENV)/.compiled
export STOWAGE_CONFORMANCE ?= ../shared/conformance
# Whatever the shell says: without bytecode each worker would compile all tests, and each process of a scenario the product, again.
unexport PYTHONDONTWRITEBYTECODE
# What config/default runs; the name and tag are declared there alone.
IMAGE = $(shell awk '$$2 == "name:" {name = $$3} $$1 == "newName:" {name = $$2} $$1 == "newTag:" {tag = $$2} END {print name ":" tag}' config/manager/kustomization.yaml)
# How many tests run at once. Those that start processes wait more than they compute.
WORKERS ?= 8
# Those that mostly compute, apart from a minute of timeouts: two workers more than cores. Each collects all tests (3 seconds of a core).
FAST_WORKERS ?= $(shell expr $$(getconf _NPROCESSORS_ONLN) + 2)
# Each worker of `make e2e` has a real control plane of its own.
E2E_WORKERS ?= 4
# tests/conftest.py says what a worker takes
DEALT = --dist loadgroup --no-loadscope-reorder --durations=10
PARALLEL = -n $(WORKERS) $(DEALT)
# .ci/run names a file for the list of flaky tests: then each test that fails is repeated once, alone.
SUITE = $(BIN)/python -m $(if $(STOWAGE_FLAKY),hack.repeat,pytest) -q

TARGETS := board chart kinds demo test test-fast test-long check format controlplane e2e e2e-long e2e-kinds e2e-page page bench image lock crds reference docs clean
.PHONY: $(TARGETS)

# uv installs the lock within seconds; where it cannot (an index that only pip knows of), pip does. Both compile it: else,
# where Python may not write bytecode, each start of a process would compile it again.
define INSTALL_LOCK
	@echo "making $(VENV) (a few seconds, up to a minute the first time)"
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r hack/bootstrap.lock
	@$(BIN)/uv pip install --quiet --compile-bytecode --require-hashes -r requirements.lock --python $(BIN)/python 2>/dev/null \
		|| $(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
endef

# Where pyproject.toml alone has changed (the version, a tool's settings), the packages stay.
$(STAMP): requirements.lock hack/bootstrap.lock pyproject.toml
	$(if $(filter-out pyproject.toml,$?),$(INSTALL_LOCK))
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

# The tests' bytecode, made once by two processes: in a new clone each worker would compile all tests, and all at the same time.
$(COMPILED): $(STAMP)
	@$(BIN)/python -m pytest --collect-only tests/admission >/dev/null 2>&1 & \
	$(BIN)/python -m pytest --collect-only --ignore tests/admission >/dev/null 2>&1; wait
	@touch $@

demo: $(STAMP)            ## the main job on the embedded API server, within a minute
	@$(BIN)/python -m admission.cli demo

test: $(COMPILED)         ## all quick suites, conformance included
	@$(SUITE) $(PARALLEL) -m "not e2e and not long"

test-fast: $(COMPILED)    ## what starts no process and no controller, each property with a quarter of its examples: for the inner loop
	@STOWAGE_FAST=1 $(BIN)/python -m pytest -q -n $(FAST_WORKERS) $(DEALT) -m "not e2e and not long and not stage"

test-long: $(COMPILED)    ## the suites that take minutes, and each property with 25 times as many examples
	@STOWAGE_LONG=1 $(BIN)/python -m pytest -q $(PARALLEL) -m "not e2e"

check: $(STAMP)           ## format, lint, types, import contracts, generated files
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports
	@$(BIN)/python -m hack.crds --check
	@$(BIN)/python -m hack.kinds --check
	@$(BIN)/python -m hack.reference --check
	@$(BIN)/python -m hack.board --check
	@$(BIN)/python -m hack.chart --check
	@$(BIN)/python -m hack.page --check
	@$(BIN)/python -m hack.house --check
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict

format: $(STAMP)
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

controlplane: $(STAMP)    ## builds etcd, kube-apiserver, ... once per machine (10 to 25 minutes the first time)
	@$(BIN)/python -m hack.controlplane build --lws

e2e: controlplane $(COMPILED) ## the scenarios on the real control plane
	@STOWAGE_E2E=1 $(SUITE) -n $(E2E_WORKERS) $(DEALT) -m "e2e and not long and not kinds and not page"

e2e-long: controlplane $(COMPILED) ## storms of failures, and Kueue itself, which is built the first time
	@STOWAGE_E2E=1 $(BIN)/python -m pytest -q -m "e2e and long"

e2e-kinds: controlplane   ## each kind of job with its real operator; builds these the first time (up to an hour)
	@$(BIN)/python -m hack.controlplane build --operators
	@STOWAGE_E2E=1 $(BIN)/python -m pytest -q --durations=10 -m kinds tests/e2e/kinds

e2e-page: $(COMPILED)     ## the dashboard's page in a headless Chromium; fetches Playwright, and Debian's chromium where it may
	@$(BIN)/uv pip install --quiet --require-hashes -r hack/page.lock --python $(BIN)/python 2>/dev/null \
		|| $(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r hack/page.lock
	@command -v chromium >/dev/null || { apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium; } >/dev/null 2>&1 || true
	@$(BIN)/python -m pytest -q --durations=5 -m page tests/page

bench: $(STAMP)           ## prints figures, of one part as in `make bench defrag`; nothing here passes or fails
	@$(BIN)/python -m tests.bench $(PART)

crds: $(STAMP)            ## writes config/crd from the types
	@$(BIN)/python -m hack.crds

kinds: $(STAMP)           ## writes what config/ says of declared job kinds
	@$(BIN)/python -m hack.kinds

board: $(STAMP)           ## writes the Grafana board
	@$(BIN)/python -m hack.board

chart: $(STAMP)           ## writes the Helm chart from config/
	@$(BIN)/python -m hack.chart

page: $(STAMP)            ## builds the dashboard's page into admission/dashboard/static; needs Node 20.19 or later
	@cd admission/dashboard/page && npm ci --silent && npm run --silent build
	@$(BIN)/python -m hack.page

reference: $(STAMP)       ## writes docs/reference from the code
	@$(BIN)/python -m hack.reference

docs: $(STAMP)            ## builds the documentation into site/; a broken link fails
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict

lock: $(STAMP)            ## resolves the dependencies again
	@$(BIN)/python -m hack.lock

image:                    ## builds the image that config/default runs; needs a container engine
	docker build $(if $(BASE),--build-arg BASE=$(BASE)) -t $(IMAGE) .

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis .benchmarks

# `make bench defrag`: the word after bench is a part, not a target.
ifeq (bench,$(firstword $(MAKECMDGOALS)))
PART := $(wordlist 2,2,$(MAKECMDGOALS))
ifneq (,$(filter-out $(TARGETS),$(PART)))
.PHONY: $(PART)
$(PART): ; @:
endif
endif
