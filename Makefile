# Everything a fresh clone needs, by itself: `make demo` or `make test` sets up what is missing.
SHELL := /bin/sh
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
JARS := $(VENV)/.jars
DOCS := $(VENV)/docs
# Any Python from 3.11 on will do; name another with `make PYTHON=...`.
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { echo $$p; break; }; done)
PIP_INSTALL := -m pip install --quiet --disable-pip-version-check --root-user-action=ignore
# Each package has its hash in a lock. Only pyspark is built here, by what requirements-build.lock has.
WHEELS := --require-hashes --only-binary :all:
PYSPARK := --no-binary pyspark --no-build-isolation --check-build-dependencies
PYTEST_ARGS ?=
BENCH_ARGS ?=
# Each has brokers of its own. Two of them keep two processors busy: with three, what has to happen within seconds does not.
PROCESSES ?= 2
WORKERS := --numprocesses $(PROCESSES) --dist loadfile --no-loadscope-reorder

# drkit's modules are compiled once, not again by each of the thousand processes that tests and measurements start.
unexport PYTHONDONTWRITEBYTECODE

TOOLS := $(VENV)/tools
INSTALL_TOOLS := "$(PYTHON)" -m venv $(TOOLS) && PIP_USER=0 $(TOOLS)/bin/python $(PIP_INSTALL) $(WHEELS) --requirement requirements-tools.lock
UV := $(TOOLS)/bin/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-annotate
AUDIT := $(TOOLS)/bin/pip-audit --strict --disable-pip --require-hashes

.PHONY: help setup java demo test test-wide test-unit test-containers check lint types format docs bench soak lock sbom audit clean

help: ## this list
	@sed -n 's/^\([a-z][a-z0-9-]*\):.*## \(.*\)/  make \1|\2/p' $(MAKEFILE_LIST) | awk -F'|' '{printf "%-22s %s\n", $$1, $$2}'

setup: $(JARS) ## the virtual environment and Kafka's jars

demo: $(JARS) ## two local clusters, replicated and proved equal
	@$(BIN)/drkit demo

# Types are checked beside the first tests: these wait more than they compute.
test: lint $(JARS) ## lint, format, types and all tests
	@$(BIN)/mypy & types=$$!; \
	$(BIN)/pytest $(WORKERS) $(PYTEST_ARGS); tests=$$?; \
	wait $$types || { echo "mypy has found errors: make types" >&2; exit 1; }; \
	exit $$tests

test-wide: $(JARS) ## more of the tests with brokers: before a release, or after a change of what they cover
	@$(BIN)/pytest -m "wide or beside_wide" $(WORKERS) $(PYTEST_ARGS)

test-unit: $(INSTALLED) ## the tests without a broker and without Java: a minute
	@$(BIN)/pytest tests/unit $(wildcard tests/test_*.py) $(WORKERS) $(PYTEST_ARGS)

test-containers: $(JARS) ## images, brokers in containers, docker/compose.yaml with a failover: needs a Docker engine
	@$(BIN)/pytest tests/containers -m "" $(PYTEST_ARGS)

check: lint types ## lint, format and types

lint: $(INSTALLED) ## ruff: lint and format
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check

types: $(INSTALLED) ## mypy
	@$(BIN)/mypy

format: $(INSTALLED) ## let ruff mend what it can
	@$(BIN)/ruff check --fix
	@$(BIN)/ruff format

# The theme announces its successor in each build.
docs: $(DOCS)/.installed ## the documentation as a site in site/: a broken link fails
	@NO_MKDOCS_2_WARNING=1 $(DOCS)/bin/mkdocs build --strict --quiet
	@$(DOCS)/bin/python -m tests.docs_site site
	@echo "to read it: $(PYTHON) -m http.server --directory site"

bench: $(JARS) ## drkit and MirrorMaker 2 on the same brokers, measured
	@$(BIN)/python -m tests.bench $(BENCH_ARGS)

soak: $(JARS) ## the long runs: kills at random moments under load, many examples: hours
	@$(BIN)/pytest -m "soak or beside_soak or wide or beside_wide or hypothesis" --hypothesis-profile soak --timeout 3600 $(PYTEST_ARGS)

lock: $(INSTALLED) ## renew the locks of packages and the list of jars
	@$(INSTALL_TOOLS)
	@$(UV) pyproject.toml --extra chaos --extra keystores --extra kubernetes --output-file requirements.lock >/dev/null
	@$(UV) pyproject.toml --extra dev --constraint requirements.lock --output-file requirements-dev.lock >/dev/null
	@$(UV) --group build --constraint requirements-dev.lock --output-file requirements-build.lock >/dev/null
	@$(UV) --group docs --output-file requirements-docs.lock >/dev/null
	@$(UV) --group tools --output-file requirements-tools.lock >/dev/null
	@$(BIN)/python -m drkit.local.jars --pin

sbom: $(INSTALLED) ## drkit.cdx.json: every locked package and jar with its hashes (CycloneDX)
	@$(BIN)/python -m tests.support.release.sbom drkit.cdx.json

audit: $(INSTALLED) ## known weaknesses of the locked packages: asks the network
	@$(INSTALL_TOOLS) || { \
	echo "make audit needs a package index, to install pip-audit" >&2; exit 1; }
	@$(AUDIT) --requirement requirements.lock && $(AUDIT) --requirement requirements-build.lock && \
	$(AUDIT) --requirement requirements-dev.lock || { \
	echo "see above: a known weakness, or no answer from the vulnerability database (it needs the network)" >&2; exit 1; }

clean: ## remove the virtual environment and caches of this folder
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis

# Spark and Kafka's brokers run on Java: say so before a long download, not after it.
java:
	@java="$${JAVA_HOME:+$$JAVA_HOME/bin/}java"; \
	major=$$("$$java" -version 2>&1 | sed -n 's/.*version "\(1\.\)\{0,1\}\([0-9][0-9]*\).*/\2/p' | head -n 1); \
	[ "$${major:-0}" -ge 17 ] || { \
	echo "drkit needs Java 17 or newer (found: $${major:-none}): install openjdk-17-jre-headless or newer, or set JAVA_HOME" >&2; \
	exit 1; }

$(INSTALLED): pyproject.toml requirements-build.lock requirements-dev.lock drkit/__init__.py | java
	@[ -n "$(PYTHON)" ] || { echo "drkit needs Python 3.11 or newer: install it, or run make PYTHON=/path/to/python3" >&2; exit 1; }
	@echo "setting up $(VENV) (once; a minute or two)" >&2
	@"$(PYTHON)" -m venv $(VENV) || { \
	echo "cannot create a virtual environment: install your system's python3-venv package" >&2; rm -rf $(VENV); exit 1; }
	@PIP_USER=0 $(BIN)/python $(PIP_INSTALL) $(WHEELS) --requirement requirements-build.lock
	@PIP_USER=0 $(BIN)/python $(PIP_INSTALL) $(WHEELS) $(PYSPARK) --requirement requirements-dev.lock
	@PIP_USER=0 $(BIN)/python $(PIP_INSTALL) --no-deps --no-build-isolation --editable .
	@touch $@

$(DOCS)/.installed: requirements-docs.lock
	@"$(PYTHON)" -m venv $(DOCS)
	@PIP_USER=0 $(DOCS)/bin/python $(PIP_INSTALL) $(WHEELS) --requirement requirements-docs.lock
	@touch $@

$(JARS): $(INSTALLED) drkit/local/jars.py | java
	@$(BIN)/python -m drkit.local.jars
	@echo "preparing Spark to start faster (once; half a minute)" >&2
	@$(BIN)/python -m drkit.spark.class_training
	@touch $@
