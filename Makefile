VENV   := .venv
# The first of these that is there; name another with PYTHON=.
PYTHON ?= $(firstword $(foreach p,python3.11 python3.12 python3.13 python3.14 python3.10 python3 python,$(if $(shell $(p) -c $(SUPPORTED) 2>/dev/null && echo yes),$(p))))
SUPPORTED := 'import sys; sys.exit(not (3, 10) <= sys.version_info[:2] <= (3, 14))'
# Python 3.10 has no NumPy 2.3 and no pandas 3.
LOCK   ?= $(if $(shell $(PYTHON) -c 'import sys; sys.exit(sys.version_info[:2] > (3, 10))' 2>/dev/null && echo yes),requirements-oldest.txt,requirements.txt)
PIP    := -m pip install --quiet --disable-pip-version-check
PY     := $(VENV)/bin/python
READY  := $(VENV)/.ready
BENCH  ?= speed --output runs/bench

# Some containers forbid Python to keep what it has compiled: then every process compiles PyTorch again, 15 s each time.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: run test soak bench docs site compatibility matrix lint format clean help

help:    ## Show this list
	@grep -hE '^[a-z-]+: .*##' $(MAKEFILE_LIST) | sed 's/: .*## /\t/'

# RecBole comes without its dependencies: it asks for a Ray of 2023, which has no build for Python 3.12 and later.
$(READY): $(LOCK) setup.py
	@$(PYTHON) -c $(SUPPORTED) 2>/dev/null || { echo "error: Python 3.10 to 3.14 is needed, and $(or $(PYTHON),none on PATH) is not one of them. Name one with: make PYTHON=/path/to/python3.12"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(PY) $(PIP) --no-compile -r $(LOCK)
	$(PY) $(PIP) --no-deps recbole==1.2.1
	$(PY) $(PIP) --no-deps --no-build-isolation --editable .
	@touch $@

run: $(READY)    ## Train AdapTauLightGCN on the ml-100k that ships with RecBole (about a minute)
	$(PY) run_recbole_adaptau.py

test: $(READY)    ## Run the test suite without its slow tests (below five minutes)
	$(PY) -m pytest -m "not slow"

soak: $(READY)    ## Kill and resume runs, and watch memory (some minutes; not for every commit)
	$(PY) -m tests.soak

bench: $(READY)    ## Measure speed beside RecBole's models on ml-100k (other data: BENCH="speed --dataset gowalla ml-1m")
	$(PY) -m recbole_adaptau bench $(BENCH)

docs: $(READY)    ## Write the generated pages of docs/
	$(PY) docs/generate_configuration.py
	$(PY) docs/generate_patches.py

site:    ## Build the documentation site into site/ (installs MkDocs into .venv-site)
	@test -x .venv-site/bin/mkdocs || { $(PYTHON) -m venv .venv-site && .venv-site/bin/python -m pip install --quiet --disable-pip-version-check "mkdocs-material>=9.5,<10" "mkdocstrings[python]>=0.26" mkdocs-jupyter; }
	.venv-site/bin/python docs/build_site.py

compatibility: $(READY)    ## Train, test and reload every model of RecBole's (about ten minutes); write docs/compatibility.md
	$(PY) -W ignore docs/generate_compatibility.py

matrix:    ## Run the fast part of the suite on every Python found, each in an environment of its own (gigabytes)
	$(or $(PYTHON),python3) docs/generate_matrix.py

lint: $(READY)    ## Check style and types
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m mypy

format: $(READY)    ## Format the code and apply ruff's fixes
	$(PY) -m ruff format .
	$(PY) -m ruff check --fix .

clean:    ## Remove the virtual environment and caches; keep runs and data
	rm -rf $(VENV) .venv-site site build dist *.egg-info .pytest_cache .hypothesis .mypy_cache .ruff_cache

.PHONY: test-all mutate coverage
test-all: $(READY)    ## Run the whole test suite, the slow tests too
	$(PY) -m pytest

mutate: $(READY)    ## Mutation testing (hours; goes on where it stopped). What a change needs, in minutes: MUTATE=--changed
	$(PY) -m tests.mutation $(MUTATE)

coverage: $(READY)    ## Run the test suite and list the lines of the package that no test executes
	$(PY) -m coverage run --source=recbole_adaptau -m pytest -n 0 -m "not slow"
	$(PY) -m coverage report --show-missing --skip-covered
