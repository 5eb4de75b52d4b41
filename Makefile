# Everything here works on a machine that has only Python 3.11 or newer, pip and make:
# the first target you call sets up uv in .tools/ and the environment in .venv/.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

SYSTEM_PATH := $(PATH)
export PATH := $(CURDIR)/.venv/bin:$(CURDIR)/.tools/bin:$(SYSTEM_PATH)
export UV_COMPILE_BYTECODE := 1
export UV_PYTHON_DOWNLOADS := never
# As pip does: trust what the system trusts, such as the certificate of a company's proxy.
export UV_SYSTEM_CERTS ?= 1
unexport VIRTUAL_ENV
# Without bytecode, each of the thousands of processes that tests start compiles all that it imports.
unexport PYTHONDONTWRITEBYTECODE

MEMBERS := $(patsubst %/pyproject.toml,%,$(wildcard */pyproject.toml))
TOOLS := .tools/ready
ENVIRONMENT := .venv/ready
EXPORT := uv export --quiet --frozen --format requirements-txt --no-annotate --no-header --no-emit-workspace

.PHONY: help
help: ## List the targets (of which pytest and test-all take ARGS="...")
	@sed -nE 's/^([a-z-]+):.*## (.*)/  make \1\t\2/p' Makefile | expand -t 22

.PHONY: environment
environment: $(ENVIRONMENT) ## Set up .tools and .venv, and nothing else

.PHONY: demo
demo: $(ENVIRONMENT) ## Learn from recorded traces with a model on this machine (ARGS=tour: a part of seconds, without a model)
	@.venv/bin/python -m examples.demo $(ARGS)

.PHONY: test
test: SLOWEST := --durations=40
test: lint types contracts pytest ## Check and test everything (some twenty minutes on two cores)

# Bytecode of all that a session installs would take longer than that of what it imports.
.PHONY: test-all
test-all: $(ENVIRONMENT) ## Run every nox session: wheels with their newest and oldest dependencies, docs, benchmarks
	UV_COMPILE_BYTECODE=0 PIP_NO_COMPILE=1 nox $(ARGS)

.PHONY: lint
lint: $(ENVIRONMENT) ## Check the style and the format of all Python files
	ruff check .
	ruff format --check .

.PHONY: format
format: $(ENVIRONMENT) ## Format all Python files and fix what can be fixed automatically
	ruff check --fix .
	ruff format .

.PHONY: types
types: $(ENVIRONMENT) ## Check the types of sources and tests
	mypy

.PHONY: contracts
contracts: $(ENVIRONMENT) ## Check which parts of ace import which
	lint-imports --no-logo

.PHONY: pytest
# Many tests wait for processes and servers, so one worker more than there are cores keeps all of these busy.
pytest: ARGS ?= -n $(shell echo $$(($$(getconf _NPROCESSORS_ONLN) + 1))) --maxprocesses 4 --dist worksteal
pytest: $(ENVIRONMENT) ## Run the tests, without the other checks
	pytest $(SLOWEST) $(ARGS)

.PHONY: bench
bench: $(ENVIRONMENT) ## Run the benchmarks and print their table
	python -m benchmarks
	python -m benchmarks.skillbook
	python -m benchmarks.learning
	python -m benchmarks.learning_workers
	python -m benchmarks.loop
	python -m benchmarks.update_groups
	python -m benchmarks.service_scale
	python -m benchmarks.first_result
	python -m benchmarks.prompt_reuse
	python -m benchmarks.transcripts
	python -m benchmarks.logs
	python -m benchmarks.similarity
	python -m benchmarks.reflection
	python -m benchmarks.tracing
	python -m benchmarks.opik
	python -m benchmarks.proxy
	python -m benchmarks.server
	python -m benchmarks.sleep
	python -m benchmarks.comparison

.PHONY: docs
docs: $(ENVIRONMENT) ## Build the documentation into build/docs
	python -m sphinx --fail-on-warning --keep-going --quiet docs build/docs
	@echo "The documentation is at build/docs/index.html."

.PHONY: wheels
wheels: $(TOOLS) ## Build the wheels of all distributions into dist
	uv build --quiet --all-packages --wheel --clear --out-dir dist
	@ls dist/*.whl

.PHONY: requirements
requirements: $(TOOLS) ## Bring requirements/ up to date with the pyproject files and the newest releases
	uv lock --quiet --upgrade
	$(EXPORT) --all-packages --all-extras --all-groups --no-group bootstrap \
	    --output-file requirements/dev.txt
	$(EXPORT) --only-group bootstrap --output-file requirements/bootstrap.txt

.PHONY: clean
clean: ## Remove everything that these targets made
	rm -rf .tools .venv .nox build dist uv.lock .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# PYTHON=... chooses the interpreter; otherwise it is the first of these that runs and is new enough.
# (A command of that name may be there and not run: version managers leave such stand-ins.)
PYTHONS := $(or $(PYTHON),python3.11 python3 python3.12 python3.13 python3.14 python)

$(TOOLS): requirements/bootstrap.txt
	@PATH="$(SYSTEM_PATH)"; \
	for python in $(PYTHONS); do \
	    if "$$python" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then \
	        rm -rf .tools; \
	        echo "Setting up uv in .tools with $$("$$python" --version)"; \
	        "$$python" -m venv .tools; \
	        .tools/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes \
	            -r requirements/bootstrap.txt; \
	        touch $@; \
	        exit; \
	    fi; \
	done; \
	echo "ACE needs Python 3.11 or newer, with its venv module; tried without success: $(PYTHONS)." >&2; \
	echo "Install one (Debian: python3-venv), or name it: make PYTHON=path/to/python3.11" >&2; \
	exit 1

$(ENVIRONMENT): $(TOOLS) requirements/dev.txt $(MEMBERS:=/pyproject.toml)
	@echo "Setting up the environment in .venv"
	@uv venv --quiet --clear --python .tools/bin/python .venv
	@uv pip sync --quiet --require-hashes requirements/dev.txt
	@uv pip install --quiet --no-deps $(MEMBERS:%=--editable ./%)
	@touch $@
