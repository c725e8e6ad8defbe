# One front door. `make` alone prints what there is.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.stamp
NODE_STAMP := web/node_modules/.stamp
PIP := $(BIN)/python -m pip --disable-pip-version-check install --require-hashes --no-build-isolation --progress-bar off
# Each worker has a broker and a Spark of its own; most tests wait more than they compute.
WORKERS ?= 2
PYTEST_ARGS ?=

##@ Use

.PHONY: demo
demo: setup ## Set everything up and run the whole story on the real stack
	@$(BIN)/headwater demo

.PHONY: setup
setup: $(STAMP)/runtime ## Install Headwater with all its parts into .venv

##@ Develop

.PHONY: test
test: lint types arrows page-test ## Lint, types, arrows and all tests: exactly what CI runs
	@$(BIN)/headwater jars fetch  # once, not by each worker
	@$(BIN)/headwater jars archive || true  # a hundred Sparks start in the tests; without it they take longer
	@# In the order of their names: the long ones, fault and integration, come before the many short ones.
	@$(BIN)/python -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder $(PYTEST_ARGS)

.PHONY: lint
lint: $(STAMP)/dev ## Check style and spelling
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/codespell

.PHONY: types
types: $(STAMP)/dev ## Check types
	@$(BIN)/mypy

.PHONY: arrows
arrows: $(STAMP)/dev ## Check who imports whom
	@$(BIN)/lint-imports

.PHONY: web
web: $(NODE_STAMP) ## Build the page (web/) into the package; needs Node
	@cd web && npm run --silent types && npm run --silent build

.PHONY: page-test
page-test: ## Check the page's sources: types, style, unit tests
	@if $(HAS_NODE); then $(MAKE) --no-print-directory $(NODE_STAMP) && cd web && npm run --silent check && npm run --silent test; \
	else echo "no Node 20.19 or newer: the tests of the page are left out, all others run"; fi

.PHONY: format
format: $(STAMP)/dev ## Format the code and mend what can be mended
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

.PHONY: reference
reference: $(STAMP)/dev ## Write docs/reference anew from the code
	@$(BIN)/python docs/reference/generate.py

.PHONY: lock
lock: $(STAMP)/dev ## Resolve all pins anew: Python packages and jars
	@$(BIN)/python -m headwater.jvm.relock
	@$(COMPILE) requirements-build.in -o requirements-build.lock
	@$(COMPILE) pyproject.toml --extra spark --extra service --extra index --extra local -c requirements-build.lock -o requirements.lock
	@$(COMPILE) pyproject.toml --all-extras -c requirements.lock -c requirements-build.lock -o requirements-dev.lock

.PHONY: clean
clean: ## Stop local services and remove .venv and .headwater
	@if [ -x $(BIN)/headwater ]; then $(BIN)/headwater down --wipe; fi
	@rm -rf .venv .headwater

.PHONY: help
help: ## Print this
	@awk 'BEGIN {FS = ":.*## "} /^##@/ {printf "\n%s\n", substr($$0, 5)} /^[a-z-]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# The page is built and tested with Node; who uses or changes the rest needs none.
HAS_NODE = command -v npm >/dev/null && node -e 'const [a, b] = process.versions.node.split(".").map(Number); process.exit(a > 20 || (a === 20 && b >= 19) ? 0 : 1)'

$(NODE_STAMP): web/package-lock.json web/.npmrc
	@$(HAS_NODE) || { echo "this needs Node 20.19 or newer, with npm"; exit 2; }
	@echo "installing pinned packages of the page"
	@cd web && npm ci --loglevel=error
	@touch $@

# Universal: one lock for every Python from 3.11 on and every platform; no addresses in it.
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
