# make demo and make test set up everything that they need, on a machine with Python 3.11 or newer and pip.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
export PIP_DISABLE_PIP_VERSION_CHECK := 1
export GRADASSAY_ZOO ?= $(CURDIR)/.zoo
SOAK_TORCH ?= 2.12.0
SOAK_SHARE ?= 1

.DEFAULT_GOAL := help
.PHONY: help setup zoo gate demo packages test check matrix faults power naming soak controls public-faults openapi vendor screenshots docs slow-test triton-test zoo-test bench clean

help:  ## show this
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/' | expand -t 14

$(READY): pyproject.toml ci/constraints.txt
	@echo "Setting up $(VENV): torch, MLflow and the tools of ci/constraints.txt (minutes, once)"
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint ci/constraints.txt --progress-bar on setuptools hatchling editables torch
	$(BIN)/python -m pip install --quiet --constraint ci/constraints.txt --no-build-isolation --editable '.[dev]'
	@touch $@

setup: $(READY)  ## the environment in .venv, pinned by ci/constraints.txt

zoo: $(READY)  ## the framework releases of ci/zoo.toml, one folder each below .zoo
	$(BIN)/python ci/zoo.py

gate: $(READY)
	$(BIN)/python ci/zoo.py --gate

demo: gate  ## the whole loop on real runs: a golden, DeepSpeed and Megatron-FSDP before and after their fixes
	$(BIN)/gradassay demo

packages:  ## Postgres, Chromium, curl, jq and openssl from Debian, where they are missing; tests start them
	sh ci/packages.sh

test: packages gate  ## all tests but those marked slow
	$(BIN)/pytest -m "not slow and not dist and not frameworks and not wheel and not triton" --numprocesses 2
	$(BIN)/pytest -m "not slow and (dist or frameworks) and not wheel" --numprocesses 2 --dist loadfile
	$(BIN)/pytest -m "not slow and wheel"

slow-test: packages gate  ## the tests that take minutes, of no further release
	$(BIN)/pytest -m "slow and not frameworks and not triton"

triton-test: $(READY)  ## the kernels of GPUs, in Triton's interpreter
	$(BIN)/pytest -m triton

zoo-test: zoo  ## every test on real releases of frameworks
	$(BIN)/pytest -m frameworks

check: $(READY)  ## ruff, mypy strict, import-linter
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy -p gradassay.goldens -p gradassay.harness -p gradassay.client -p gradassay.forges -p gradassay.cli -p gradassay.testing -p gradassay.api
	$(BIN)/lint-imports

matrix: $(READY)  ## every reference strategy in every layout against its golden, as docs/matrix-results.md
	$(BIN)/python ci/matrix_report.py

faults: gate  ## every injectable fault on every strategy, as docs/injected-faults.md
	$(BIN)/python ci/faults_table.py

power: $(READY)  ## the smallest errors that goldens and published checks show, as docs/power.md; goes on where it was
	$(BIN)/python ci/power_report.py

naming: $(READY)  ## how often laws are named right, tied or wrong in layouts drawn at random, as docs/naming.md; hard units, as docs/conditioning.md
	PYTHONPATH=tests $(BIN)/python ci/naming_report.py
	PYTHONPATH=tests $(BIN)/python ci/conditioning_report.py

soak: $(READY)  ## honest runs in other surroundings, against goldens built once, as docs/soak.md; goes on where it was
	$(BIN)/python ci/soak.py --torch $(SOAK_TORCH) --share $(SOAK_SHARE)

controls: zoo  ## every framework release broken on purpose, as docs/controls.md; goes on where it was
	$(BIN)/python ci/controls.py

bench: packages $(READY)  ## every benchmark, in build/bench and as docs/performance.md; minutes, on a machine with nothing else to do
	PYTHONPATH=ci $(BIN)/python -m bench.run

public-faults: zoo  ## every public report, run for real or injected, as docs/faults.md
	$(BIN)/python ci/public_faults.py

openapi: $(READY)  ## the description of the HTTP API, as api/openapi.json
	$(BIN)/python ci/openapi.py

vendor:  ## rebuild the scripts of others that the dashboard serves, from npm
	cd ci/vendor && npm ci && node build.mjs ../../api/gradassay/api/web/static/vendor

screenshots: packages $(READY)  ## pictures of every page of the dashboard, in build/screenshots
	PYTHONPATH=tests $(BIN)/python ci/screenshots.py

docs: $(READY)  ## the pages of docs/ as a site, in build/site
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

clean:  ## remove what make has built
	rm -rf $(VENV) .zoo ci/vendor/node_modules .mypy_cache .ruff_cache .pytest_cache .hypothesis
