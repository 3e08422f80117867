VENV   := .venv
PYTHON ?= $(firstword $(foreach p,python3.11 python3.10 python3 python,$(if $(shell $(p) -c 'import sys; sys.exit(not (3, 10) <= sys.version_info[:2] < (3, 12))' 2>/dev/null && echo yes),$(p))))
PY     := $(VENV)/bin/python
READY  := $(VENV)/.ready
BENCH  ?= speed --output runs/bench

# Some containers forbid Python to keep what it has compiled: then every process compiles PyTorch again, 15 s each time.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: run test soak bench docs site lint format clean help

help:    ## Show this list
	@grep -hE '^[a-z]+: .*##' $(MAKEFILE_LIST) | sed 's/: .*## /\t/'

$(READY): requirements.txt setup.py
	@if [ -z "$(PYTHON)" ]; then echo "error: Python 3.10 or 3.11 is needed (RecBole 1.2.1 needs ray <= 2.6.3, which has no build for 3.12 or later); none was found on PATH. Name one with: make PYTHON=/path/to/python3.11"; exit 1; fi
	$(PYTHON) -m venv $(VENV)
	$(PY) -m pip install --quiet --disable-pip-version-check --no-compile -r requirements.txt
	$(PY) -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@

run: $(READY)    ## Train AdapTauLightGCN on the ml-100k that ships with RecBole (about a minute)
	$(PY) run_recbole_adaptau.py

test: $(READY)    ## Run the test suite (about five minutes)
	$(PY) -m pytest

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

lint: $(READY)    ## Check style and types
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m mypy

format: $(READY)    ## Format the code and apply ruff's fixes
	$(PY) -m ruff format .
	$(PY) -m ruff check --fix .

clean:    ## Remove the virtual environment and caches; keep runs and data
	rm -rf $(VENV) .venv-site site build dist *.egg-info .pytest_cache .hypothesis .mypy_cache .ruff_cache
