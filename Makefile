# `make run` starts a broker, `make test` runs everything, `make test-fast` the tests of the daily
# loop. All prepare .venv first.

# The Python of the system comes first where it is new enough: it was built with profiles, and runs
# kbroker an eighth to a quarter faster than one that pyenv compiled.
PYTHON ?= $(shell /usr/bin/python3 -c "import ensurepip, sys; sys.exit(sys.version_info < (3, 11))" 2>/dev/null && echo /usr/bin/python3 || echo python3)
VENV := .venv
BIN := $(VENV)/bin
ARGS ?=
A ?= kbroker
B ?= kafka-3.9.2
PAGE_TESTS := tests/docs/test_pages.py tests/docs/test_names.py tests/docs/test_troubleshooting.py

.DEFAULT_GOAL := help
WHERE = $(if $(TARGET),--target $(TARGET),--start $(or $(START),kbroker))
SITE := build/docs/.built
.PHONY: help run cluster test test-fast test-frameworks compat check check-types check-tests check-docs format docs bench bench-vs-apache compare tools clean

help:
	@echo "make run              start a development broker on 127.0.0.1:9092 (more: ARGS='--listen 127.0.0.1:0')"
	@echo "make cluster          start three brokers and a ZooKeeper on this machine (examples/three-brokers)"
	@echo "make test             run all tests: fast ones, real clients, Spark"
	@echo "make test-fast        run those that need no client, no Java and hardly a socket"
	@echo "make test-frameworks  run programs of Celery, Faust, Spring, Kafka Connect and others (installs them in a cache)"
	@echo "make compat           run clients of Python, C, Java, Go, Node and Spark against a broker (TARGET=host:port, or"
	@echo "                      START=kbroker, kafka-3.9.2, kafka-4.3.1), and write a table to build/compat"
	@echo "make check            format, lint, types, import contracts, tests of source and pages, the site"
	@echo "make docs             write the reference pages from the code, build a site in build/docs"
	@echo "make bench            run the benchmarks and print a table"
	@echo "make bench-vs-apache  the same loads against Apache Kafka, side by side"
	@echo "make compare          what two brokers answer otherwise, field by field (A=kbroker B=kafka-3.9.2, or HOST:PORT)"

define NEW_ENOUGH
import sys
if sys.version_info < (3, 11):
    version = sys.version.split()[0]
    sys.exit(f"Error: kbroker needs Python 3.11 or newer, and {sys.argv[1]} is {version}. Name another one: make run PYTHON=python3.12")
endef
export NEW_ENOUGH

$(BIN)/kbroker: pyproject.toml
	@echo "preparing $(VENV) ..."
	@$(BIN)/python -m pip --version >/dev/null 2>&1 || { $(PYTHON) -c "$$NEW_ENOUGH" "$(PYTHON)" && $(PYTHON) -m venv --clear $(VENV); }
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	@touch $@

$(VENV)/.test-ready: pyproject.toml | $(BIN)/kbroker
	@echo "preparing $(VENV) with everything the tests need ..."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[spark,test]'
	@touch $@

$(VENV)/.spark-ready: pyproject.toml | $(BIN)/kbroker
	@echo "preparing $(VENV) with pyspark, whose jars contain ZooKeeper ..."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[spark]'
	@touch $@

$(VENV)/.docs-ready: pyproject.toml | $(BIN)/kbroker
	@echo "preparing $(VENV) with the generator of the pages ..."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[docs]'
	@touch $@

run: $(BIN)/kbroker
	@exec $(BIN)/kbroker start $(ARGS)

cluster: $(VENV)/.spark-ready tools
	@PATH="$(CURDIR)/$(BIN):$$PATH" exec sh examples/three-brokers $(ARGS)

tools:
	@sh .ci/ensure-tools

# Tests start thousands of processes: Python keeps what it has compiled, also where the environment says not to.
test test-fast check-tests: export PYTHONDONTWRITEBYTECODE :=

test: $(VENV)/.test-ready $(VENV)/.docs-ready tools
	$(BIN)/python -m pytest -n 5 --dist loadfile $(ARGS)

test-fast: $(VENV)/.test-ready
	$(BIN)/python -m pytest -n 2 --dist loadfile -m "not spark" tests/test_tidy.py tests/test_tidy_names.py tests/test_tidy_language.py tests/test_tidy_docstrings.py tests/unit tests/properties tests/scenarios $(ARGS)

test-frameworks: $(VENV)/.test-ready tools
	$(BIN)/python -m pytest compat_tests/frameworks $(ARGS)

compat: $(VENV)/.test-ready tools
	$(BIN)/python -m compat_tests.matrix $(WHERE) $(ARGS)

check: $(VENV)/.test-ready $(VENV)/.docs-ready
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/lint-imports
	@$(MAKE) --no-print-directory --jobs 2 check-types check-tests check-docs

check-types:
	$(BIN)/mypy

check-tests:
	$(BIN)/python -m pytest -q tests/test_tidy.py tests/test_tidy_names.py tests/test_tidy_language.py tests/test_tidy_docstrings.py $(PAGE_TESTS)

check-docs: $(SITE)
	$(BIN)/python -m pytest -q tests/docs/test_site.py

# Always the whole site: a page that is not read again keeps its warnings to itself.
$(SITE): $(VENV)/.docs-ready README.md $(wildcard docs/*)
	$(BIN)/python -m sphinx -q -W -E -b html docs $(@D)
	@touch $@

format: $(VENV)/.test-ready
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

docs: $(VENV)/.docs-ready
	$(BIN)/python -m tests.docs.generated
	@$(MAKE) --no-print-directory $(SITE)
	@echo "open build/docs/index.html"

bench: $(VENV)/.test-ready tools
	$(BIN)/python -m benchmarks $(ARGS)

bench-vs-apache: $(VENV)/.test-ready tools
	$(BIN)/python -m benchmarks --versus-apache $(ARGS)

compare: $(VENV)/.test-ready tools
	$(BIN)/python -m compat_tests.compare --diff $(A) $(B) $(ARGS)

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .import_linter_cache
