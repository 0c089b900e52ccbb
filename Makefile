# Two commands for a newcomer: make demo, make test. Both build .venv by themselves.
PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
.PHONY: demo test lint types docs smoke bench clean

demo: .venv/.demo
	$(BIN)/metapac demo

test: .venv/.test
	@test -n "$$METAPAC_POSTGRES" || echo "METAPAC_POSTGRES is not set: the tests of PostgreSQL will be skipped."
	$(BIN)/python -m pytest --numprocesses logical --maxprocesses 8

lint: .venv/.lint
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: .venv/.lint
	$(BIN)/mypy

# Strict: a broken link, or a docstring that does not parse, is an error.
docs: .venv/.docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

smoke: .venv/.build
	.ci/smoke

bench: .venv/.bench
	$(BIN)/python -m pytest benchmarks --benchmark-columns=min,median,rounds --benchmark-disable-gc

clean:
	rm -rf .venv metapac-demo site

.venv/.pip:
	@$(PYTHON) -c "import sys; sys.exit(sys.version_info < (3, 11) and 'metapac needs Python 3.11 or newer: make PYTHON=python3.11')"
	$(PYTHON) -m venv .venv
	@$(PIP) install --upgrade pip
	@touch $@

.venv/.demo: .venv/.pip pyproject.toml constraints.txt
	@echo "Installing metapac and what it needs into .venv, torch among it; this takes minutes."
	@$(PIP) install --constraint constraints.txt --editable ".[cli,plot,report,torch]"
	@touch $@

# Spark needs Java: without it, 400 MB of Spark would be installed for nothing.
EXTRAS = cli,plot,report,torch,tables$(if $(shell command -v java),$(comma)spark)
comma := ,
.venv/.test: .venv/.demo constraints.txt
	@echo "Installing what the tests need into .venv; this takes minutes."
	@command -v java >/dev/null || echo "There is no Java here: the tests of Spark will be skipped."
	@$(PIP) install --constraint constraints.txt --editable ".[$(EXTRAS)]" --group test
	@touch $@

.venv/.lint: .venv/.test
	@$(PIP) install --constraint constraints.txt --group lint
	@touch $@

.venv/.docs: .venv/.test
	@$(PIP) install --constraint constraints.txt --group docs
	@touch $@

.venv/.build: .venv/.pip pyproject.toml
	@$(PIP) install --group build
	@touch $@

# Flower, in an environment of its own: it needs other versions of what is in this one.
.venv/.flower: .venv/.pip constraints.txt
	@$(PYTHON) -m venv .venv/flower
	@.venv/flower/bin/python -m pip --disable-pip-version-check --quiet install \
		--constraint constraints.txt "flwr[simulation]" numpy scipy
	@touch $@

.venv/.bench: .venv/.test
	@$(PIP) install --constraint constraints.txt --group bench
	@touch $@
