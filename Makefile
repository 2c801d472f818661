# Everything sets itself up: `make` and a Python of 3.11 or later are all that is needed.

PYTHON ?= python3
VENV ?= .venv
PYTEST_ARGS ?=
TEST_WORKERS ?= 10
HERD_ARGS ?= --quick
MODE ?= guard
SERVE_ARGS ?=
MICRO_ARGS ?=
PEERS_VENV ?= .venv-peers
PEERS_ARGS ?=
HTTP_VENV ?= .venv-http
HTTP_ARGS ?=
SCALE_ARGS ?= --output results
SOAK_ARGS ?=
DIST_ARGS ?=
LEASES_ARGS ?= --json results/leases.json
AUDIT_VENV ?= .venv-bench-audit
AUDIT_ARGS ?=
FIGURES_ARGS ?=
APSCHEDULER4_VENV ?= .venv-apscheduler4

# Most tests wait more than they compute, so eight run at once; those that cannot say so (`@pytest.mark.alone`). Two more
# workers compute, and give way to them (tests/support/computing.py). With arguments of one's own they run one by one, which -x, -s and --pdb want, and on a given server, which is one for all.
ALL_AT_ONCE = --numprocesses=$(TEST_WORKERS) --dist=worksteal --max-worker-restart=0
SPREAD = $(if $(PYTEST_ARGS)$(STAMPEDE_GUARD_TEST_URL),,$(ALL_AT_ONCE))

# To measure coverage costs half as much computing again, so only CI and `make coverage` do it.
MEASURED = $(if $(CI)$(COVERAGE),--cov --cov-report=)

BIN = $(VENV)/bin
READY = $(VENV)/.ready
PEERS_READY = $(PEERS_VENV)/.ready
HTTP_READY = $(HTTP_VENV)/.ready
AUDIT_READY = $(AUDIT_VENV)/.ready
APSCHEDULER4_READY = $(APSCHEDULER4_VENV)/.ready

# Tests and the demo start hundreds of processes: each would compile the package anew.
unexport PYTHONDONTWRITEBYTECODE
export PIP_DISABLE_PIP_VERSION_CHECK = 1
# Reports and caches of the tools stay in the checkout, also where HOME is missing or read-only.
export MPLCONFIGDIR = $(CURDIR)/.cache/matplotlib

.PHONY: help demo herd-serve test test-redis test-pgbouncer test-prometheus test-console test-apscheduler4 apscheduler4 check bench bench-peers bench-http bench-scale bench-watching bench-leases figures search docs dist soak interpreters interpreters-ready interpreters-tenth floor venv clean lint format types public-types imports covered coverage audit workflows bench-audit
.DEFAULT_GOAL := help

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(firstword $(MAKEFILE_LIST)) | while IFS='	' read -r name text; do printf '  make %-13s %s\n' "$$name" "$$text"; done

demo: $(READY) ## the production herd, reproduced and cured (HERD_ARGS=--full for all six modes)
	$(BIN)/python -m bench.herd $(HERD_ARGS)

herd-serve: $(READY) ## its service alone, for Locust's own page (MODE=naive|local|incident-fix|guard|guard-stale|middleware)
	$(BIN)/python -m bench.herd.serve --mode $(MODE) $(SERVE_ARGS)

test: $(READY) ## every test, on a real Valkey from its wheel (PYTEST_ARGS="-k takeover" for some)
	@rm -f .coverage .coverage.*
	$(BIN)/python -m pytest $(MEASURED) --durations=10 $(SPREAD) $(PYTEST_ARGS)

test-redis: $(READY) ## the contract, the scripts and the rights on the redis-server found here (Debian's 7.0, say)
	STAMPEDE_GUARD_SERVER=redis-server $(BIN)/python -m pytest tests/stores/test_contract.py \
	  tests/stores/test_contract_leases.py tests/stores/test_contract_tags.py tests/stores/test_contract_uncacheable.py \
	  tests/stores/test_scripts_twins.py tests/stores/test_rights.py \
	  tests/leases/redis tests/leases/contract tests/jobs/backends $(PYTEST_ARGS)

test-pgbouncer: $(READY) ## leases in PostgreSQL through the pgbouncer found here, in transaction mode
	$(BIN)/python -m pytest tests/pooler $(PYTEST_ARGS)

test-prometheus: $(READY) ## dashboard and alert rules in the Prometheus found here, with its promtool
	$(BIN)/python -m pytest tests/prometheus $(PYTEST_ARGS)

test-console: $(READY) ## the console's pages in the Chromium found here, with its chromedriver
	$(BIN)/python -m pytest tests/console_browser $(PYTEST_ARGS)

test-apscheduler4: $(APSCHEDULER4_READY) ## schedulers of APScheduler 4, which has an environment of its own
	$(APSCHEDULER4_VENV)/bin/python -m pytest tests/apscheduler4 $(PYTEST_ARGS)

apscheduler4: $(APSCHEDULER4_READY)  # fails where it cannot be installed, and nothing was tested

check: lint format types public-types imports audit workflows $(if $(CI),covered) ## lint, types, imports, its own audit; in CI also the coverage of its `make test`

bench: $(READY) ## the speed table: ratios measured in one run
	$(BIN)/python -m bench.micro $(MICRO_ARGS)

bench-peers: $(PEERS_READY) ## the library beside its peers; a quarter of an hour (PEERS_ARGS=--quick: some minutes)
	$(PEERS_VENV)/bin/python -m bench.peers $(PEERS_ARGS)

bench-http: $(HTTP_READY) ## the HTTP cache beside others, and nginx where it is installed; some minutes (HTTP_ARGS=--quick: one)
	$(HTTP_VENV)/bin/python -m bench.http $(HTTP_ARGS)

bench-scale: $(READY) ## how costs grow to 16 processes and 100,000 keys, and a fleet of 10,000 simulated (SCALE_ARGS=--quick)
	$(BIN)/python -m bench.scale $(SCALE_ARGS)

bench-watching: $(READY) ## what hooks, counting and a viewer cost a hit, a process and Redis; two minutes
	$(BIN)/python -m bench.scale.watching $(WATCHING_ARGS)

bench-leases: $(READY) ## crowds of waiters, long histories, bursts of claims, idle fleets, on both stores (LEASES_ARGS=--quick)
	$(BIN)/python -m bench.leases $(LEASES_ARGS)

bench-audit: $(READY) $(AUDIT_READY) ## files per second of the audit beside ruff and bandit, on all that is installed here
	$(BIN)/python -m bench.audit $(AUDIT_ARGS)

figures: $(READY) ## every figure of the pages, measured anew on a machine that does nothing else; an hour (FIGURES_ARGS="--only micro")
	$(BIN)/python -m bench.figures $(FIGURES_ARGS)

search: $(READY) ## the larger worlds of the exhaustive search (half an hour, a few GB)
	STAMPEDE_SEARCH=deep $(BIN)/python -m pytest tests/core/test_search.py tests/core/test_tags.py -s -o faulthandler_timeout=0

docs: $(READY) ## the documentation as a site, in results/site: links checked, no other host asked
	$(BIN)/python -m scripts.site

dist: $(READY) ## wheel and sdist, built twice with the same bytes and tried in empty environments (DIST_ARGS=--quick)
	$(BIN)/python -m scripts.dist $(DIST_ARGS)

soak: $(READY) ## processes, faults and a judge, for as long as you like (SOAK_ARGS="--seconds 600 --store valkey --seed 7")
	$(BIN)/python -m tests.soak $(SOAK_ARGS)

interpreters: $(READY) ## core and store tests on every Python 3.11 to 3.14 found here
	$(BIN)/python scripts/interpreters.py

interpreters-ready: $(READY)  # the environments of the next one
	$(BIN)/python scripts/interpreters.py --ready

interpreters-tenth: $(READY)  # a fixed tenth of the suite on every further Python found here
	$(BIN)/python scripts/interpreters.py --tenth

floor: $(READY) ## the store tests on the lowest versions that pyproject.toml allows
	$(BIN)/python scripts/interpreters.py --lowest

venv: $(READY) ## only make .venv

lint: $(READY)
	$(BIN)/ruff check .

format: $(READY)
	$(BIN)/ruff format --check .

types: $(READY)
	$(BIN)/mypy

public-types: $(READY)
	$(BIN)/pyright --pythonpath $(BIN)/python

imports: $(READY)
	$(BIN)/lint-imports --no-logo

audit: $(READY)  # the one example that is wrong on purpose is left out
	$(BIN)/python -m stampede_guard.audit . --strict --exclude examples/audited_app

workflows: $(READY)
	$(BIN)/zizmor --quiet --offline .github/workflows

coverage: $(READY) ## every test, measured, and the lines that none of them reaches
	$(MAKE) test COVERAGE=1
	$(BIN)/coverage report

covered: $(READY)  # what CI's `make test` has measured
	@test -f .coverage || { echo "No test was measured: CI=true make test" >&2; exit 1; }
	$(BIN)/coverage report --fail-under=90

# The stamp is newer than what it was made from, or the environment is brought up to date.
$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	  echo "stampede_guard needs Python 3.11 or later; '$(PYTHON)' is `$(PYTHON) --version 2>/dev/null || echo missing`." >&2; \
	  echo "Name another one: make $(MAKECMDGOALS) PYTHON=python3.12" >&2; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "Installing into $(VENV) (once; about a minute)"
	@# Half of an installation would be to compile packages of which the tests import few. Python compiles those itself.
	@$(BIN)/python -m pip install --quiet --no-compile --constraint constraints.txt --editable '.[dev]'
	@touch $@

# An environment of their own: what the peers ask for must not decide what this library is tested with.
$(PEERS_READY): pyproject.toml constraints.txt bench/peers/requirements.txt
	@test -x $(PEERS_VENV)/bin/python || $(PYTHON) -m venv $(PEERS_VENV)
	@echo "Installing the peers into $(PEERS_VENV) (once; about a minute)"
	@$(PEERS_VENV)/bin/python -m pip install --quiet --constraint constraints.txt --editable '.[bench]'
	@while read -r peer; do case "$$peer" in ''|'#'*) continue;; esac; \
	  $(PEERS_VENV)/bin/python -m pip install --quiet --constraint constraints.txt "$$peer" \
	  || echo "$$peer cannot be installed here: its row will say NOT RUN" >&2; done < bench/peers/requirements.txt
	@touch $@

# Pinned like the rest, but for the two that the peers decide.
$(HTTP_READY): pyproject.toml constraints.txt bench/http/requirements.txt
	@test -x $(HTTP_VENV)/bin/python || $(PYTHON) -m venv $(HTTP_VENV)
	@echo "Installing the other HTTP caches into $(HTTP_VENV) (once; about a minute)"
	@grep -v -e '^fastapi==' -e '^starlette==' constraints.txt > $(HTTP_VENV)/constraints.txt
	@grep -e '^fastapi==' -e '^starlette==' bench/http/requirements.txt >> $(HTTP_VENV)/constraints.txt
	@$(HTTP_VENV)/bin/python -m pip install --quiet --constraint $(HTTP_VENV)/constraints.txt --editable '.[bench]'
	@while read -r peer; do case "$$peer" in ''|'#'*) continue;; esac; \
	  $(HTTP_VENV)/bin/python -m pip install --quiet --constraint $(HTTP_VENV)/constraints.txt "$$peer" \
	  || echo "$$peer cannot be installed here: its row will say NOT RUN" >&2; done < bench/http/requirements.txt
	@touch $@

# Version 3, which the tests beside this one run with, excludes version 4.
$(APSCHEDULER4_READY): pyproject.toml constraints.txt tests/apscheduler4/requirements.txt
	@test -x $(APSCHEDULER4_VENV)/bin/python || $(PYTHON) -m venv $(APSCHEDULER4_VENV)
	@echo "Installing APScheduler 4 into $(APSCHEDULER4_VENV) (once; about a minute)"
	@grep -v -i -e '^apscheduler==' constraints.txt > $(APSCHEDULER4_VENV)/constraints.txt
	@$(APSCHEDULER4_VENV)/bin/python -m pip install --quiet --constraint $(APSCHEDULER4_VENV)/constraints.txt \
	  --requirement tests/apscheduler4/requirements.txt --editable '.[jobs,postgres]'
	@touch $@

$(AUDIT_READY): bench/audit/requirements.txt
	@test -x $(AUDIT_VENV)/bin/python || $(PYTHON) -m venv $(AUDIT_VENV)
	@$(AUDIT_VENV)/bin/python -m pip install --quiet --constraint constraints.txt --requirement $< \
	  || echo "bandit cannot be installed here: its rows will say NOT RUN" >&2
	@touch $@

clean: ## remove the environments, the caches and the results
	rm -rf $(VENV) $(PEERS_VENV) .venv-peers-3.12 $(HTTP_VENV) $(AUDIT_VENV) $(APSCHEDULER4_VENV) .cache .coverage .coverage.* .hypothesis .mypy_cache .pytest_cache .ruff_cache .import_linter_cache
	rm -rf build dist results *.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
