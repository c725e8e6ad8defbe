# `make` without a target lists all targets.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.stamp
NODE_STAMP := web/node_modules/.stamp
PIP := $(BIN)/python -m pip --disable-pip-version-check install --require-hashes --no-build-isolation --progress-bar off
# Each worker starts its own broker and Spark session; most tests wait more than they compute.
WORKERS ?= 2
PYTEST_ARGS ?=
# The lines of Spark with a separate environment; the tests themselves run with 4.1.
LINES := $(patsubst tests/lines/%.lock,%,$(wildcard tests/lines/*.lock))

##@ Use

.PHONY: demo
demo: setup ## Set everything up and run all demos on the real stack
	@$(BIN)/headwater demo

.PHONY: setup
setup: $(STAMP)/runtime ## Install Headwater with all extras into .venv

##@ Develop

.PHONY: test
test: $(STAMP)/dev $(LINES:%=$(STAMP)/line-%) ## Lint, types, imports and all tests with coverage: exactly what CI runs
	@$(MAKE) --no-print-directory -j $(WORKERS) lint types imports page-test
	@$(BIN)/headwater jars fetch  # once, not by each worker
	@$(MAKE) --no-print-directory java-test
	@$(BIN)/headwater jars cds || true  # the tests start about a hundred Spark sessions; CDS halves their start-up
	@# Files run in the order of their names: fault and integration, which take longest, come first.
	@$(BIN)/python -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder --cov $(PYTEST_ARGS)
	@$(MAKE) --no-print-directory test-lines

.PHONY: test-unit
test-unit: $(STAMP)/dev ## Unit tests only: no JVM, no broker, under a minute
	@$(BIN)/python -m pytest -n $(WORKERS) -q tests/unit $(PYTEST_ARGS)

LINE ?= 3.5

.PHONY: test-spark
test-spark: ## All tests that need Spark, with another version: LINE=3.5; not part of `test`
	@$(MAKE) --no-print-directory $(STAMP)/line-$(LINE)
	@.venv/lines/$(LINE)/bin/headwater jars fetch
	@.venv/lines/$(LINE)/bin/python -m pytest -n $(WORKERS) --dist loadfile -m spark $(PYTEST_ARGS)

.PHONY: test-lines
test-lines: $(LINES:%=test-line-%) ## A short pass with each other line of Spark: decorator, join, replay, tables, row lineage; part of `test`

.PHONY: $(LINES:%=test-line-%)
$(LINES:%=test-line-%): test-line-%: $(STAMP)/line-%
	@.venv/lines/$*/bin/headwater jars fetch
	@echo "testing with Spark $*"
	@.venv/lines/$*/bin/python -m pytest -q -n $(WORKERS) --dist loadfile -p no:cacheprovider -m lines tests/fault tests/integration tests/unit/spark $(PYTEST_ARGS)

.PHONY: test-clients
test-clients: $(STAMP)/clients-dbt $(STAMP)/clients-airflow ## Tests with clients of others: dbt, Airflow, Spark's OpenLineage listener; not part of `test`
	@CLIENT_ENVIRONMENTS=$(abspath .venv/clients) $(BIN)/python -m pytest -q tests/clients $(PYTEST_ARGS)

# Each run has other plans unless SEED is given; a failure prints the seed and the plan.
PLANS ?= 500
SEED ?= $(shell date +%s)
SEED := $(SEED)
MINUTES ?= 120

.PHONY: soak
soak: $(STAMP)/dev ## Row lineage of random jobs: PLANS=500 SEED=… MINUTES=120; not part of `test`
	@echo "SEED=$(SEED) PLANS=$(PLANS) MINUTES=$(MINUTES)"
	@SEED=$(SEED) PLANS=$(PLANS) MINUTES=$(MINUTES) $(BIN)/python -m pytest -q tests/integration/test_random_plans.py $(PYTEST_ARGS)

.PHONY: lint
lint: $(STAMP)/dev ## Check style and spelling
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/codespell
	@$(BIN)/python java/tasks.py check-format

.PHONY: types
types: $(STAMP)/dev ## Check types
	@$(BIN)/mypy

.PHONY: imports
imports: $(STAMP)/dev ## Check the import rules of the packages
	@$(BIN)/lint-imports

.PHONY: java-test
java-test: $(STAMP)/dev ## Compile the Java project for every Spark, and run its JUnit tests; SPARK_HOME=… for another Spark
	@$(BIN)/python java/tasks.py test

.PHONY: wheel
wheel: $(STAMP)/dev ## Build the wheel, with the jars of the Java project, into dist/
	@$(BIN)/python -m pip --disable-pip-version-check wheel --quiet --no-deps --no-build-isolation -w dist .

.PHONY: web
web: $(NODE_STAMP) ## Build the page (web/) into the package; needs Node
	@cd web && npm run --silent types && npm run --silent build

.PHONY: page-test
page-test: ## Check the page's sources: types, style, unit tests
	@if $(HAS_NODE); then $(MAKE) --no-print-directory $(NODE_STAMP) && cd web && npm run --silent check && npm run --silent test; \
	else echo "no Node 20.19 or newer: skipping the tests of the page"; fi

.PHONY: format
format: $(STAMP)/dev ## Format the code and apply automatic fixes
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .
	@$(BIN)/python java/tasks.py format

.PHONY: reference
reference: $(STAMP)/dev ## Generate docs/reference from the code
	@$(BIN)/python docs/reference/generate.py

.PHONY: lock
lock: $(STAMP)/dev ## Resolve all pins again: Python packages and jars
	@$(BIN)/python -m headwater.jvm.relock
	@$(COMPILE) requirements-build.in -o requirements-build.lock
	@$(COMPILE) pyproject.toml --extra all -c requirements-spark.in -c requirements-build.lock -o requirements.lock
	@# Of the container images in deploy/: the service, and jobs on a Spark that has its own pyspark.
	@$(COMPILE) pyproject.toml --extra service --extra index -c requirements.lock -o requirements-service.lock
	@$(COMPILE) pyproject.toml --extra jobs --extra index -c requirements.lock -o requirements-jobs.lock
	@$(COMPILE) pyproject.toml --all-extras -c requirements.lock -c requirements-build.lock -o requirements-dev.lock
	@for line in $(LINES); do $(COMPILE) --no-deps tests/lines/$$line.in -o tests/lines/$$line.lock; done
	@$(COMPILE) --no-strip-extras tests/clients/dbt.in -o tests/clients/dbt.lock
	@$(COMPILE) --no-strip-extras tests/clients/airflow.in -o tests/clients/airflow.lock

.PHONY: clean
clean: ## Stop local services, remove their state and .venv; ask before archives and tables
	@if [ -x $(BIN)/headwater ]; then $(BIN)/headwater down --wipe; fi
	@rm -rf .venv

.PHONY: help
help: ## Print this
	@awk 'BEGIN {FS = ":.*## "} /^##@/ {printf "\n%s\n", substr($$0, 5)} /^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# Only the page (web/) needs Node.
HAS_NODE = command -v npm >/dev/null && node -e 'const [a, b] = process.versions.node.split(".").map(Number); process.exit(a > 20 || (a === 20 && b >= 19) ? 0 : 1)'

$(NODE_STAMP): web/package-lock.json web/.npmrc
	@$(HAS_NODE) || { echo "this needs Node 20.19 or newer, with npm"; exit 2; }
	@echo "installing pinned packages of the page"
	@cd web && npm ci --loglevel=error
	@touch $@

# Universal: one lock for all platforms and every Python from 3.11 on, without registry addresses.
COMPILE = $(BIN)/uv pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes --no-header --no-annotate --no-emit-index-url

$(STAMP)/venv:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Headwater needs Python 3.11 or newer, this is $$($(PYTHON) --version); set PYTHON=…"; exit 2; }
	@echo "making .venv with $$($(PYTHON) --version)"
	@$(PYTHON) -m venv .venv
	@mkdir -p $(STAMP) && touch $@

$(STAMP)/build: requirements-build.lock | $(STAMP)/venv
	@$(PIP) --quiet -r requirements-build.lock
	@touch $@

$(STAMP)/runtime: requirements.lock pyproject.toml | $(STAMP)/build
	@echo "installing pinned packages (about a minute the first time)"
	@$(PIP) -r requirements.lock | awk '/^(Collecting|Building|Installing)/ {print "  " substr($$0, 1, 90); fflush()}'
	@$(BIN)/python -m pip --disable-pip-version-check install --quiet --no-deps --no-build-isolation -e .
	@touch $@

$(STAMP)/dev: requirements-dev.lock $(STAMP)/runtime
	@echo "installing pinned tools for tests"
	@$(PIP) --quiet -r requirements-dev.lock
	@touch $@

# Only what differs is installed; all other packages are those of .venv.
$(STAMP)/line-%: tests/lines/%.lock $(STAMP)/dev
	@echo "installing Spark $*"
	@$(BIN)/python tests/lines/environment.py .venv/lines/$*
	@.venv/lines/$*/bin/python -m pip --disable-pip-version-check install --quiet --no-deps --require-hashes --no-build-isolation -r $<
	@touch $@

$(STAMP)/clients-%: tests/clients/%.lock $(STAMP)/dev
	@echo "installing pinned packages of $*"
	@$(PYTHON) -m venv .venv/clients/$*
	@# The lock is complete. With dependencies, pip takes `name[extra]==…` as a pin of the name only by chance.
	@.venv/clients/$*/bin/python -m pip --disable-pip-version-check install --quiet --no-deps --require-hashes --only-binary :all: -r $<
	@touch $@
