PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
RUNS := $(VENV)/.runs#   set up to run
TESTS := $(VENV)/.tests# set up to test

.PHONY: quickstart test slow check bench world clean

quickstart: $(RUNS)  ## train the built-in tiny model against its own past, and report
	$(BIN)/equipoise run quickstart --out runs/quickstart --overwrite

test: $(TESTS)        ## the fast suite
	$(BIN)/python -m pytest

slow: $(TESTS)        ## the long tests: crashes, whole recipes
	$(BIN)/python -m pytest -m slow

check: $(TESTS)       ## style, types and the import law
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright
	$(BIN)/python -m pytest tests/test_import_law.py

bench: $(TESTS)       ## every benchmark, short settings (see docs/lab.md for the long ones)
	$(BIN)/python -m benchmarks

world: $(RUNS)       ## rebuild the built-in world's tiny model from its seed, the pool and the siege on it, and the desk
	$(BIN)/python -m equipoise.environments.clerk.build
	$(BIN)/python -m equipoise.environments.clerk.build_pool
	$(BIN)/python -m equipoise.environments.clerk.build_red_team
	$(BIN)/python -m equipoise.environments.clerk.build_assistance

$(RUNS): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[train,endpoints,serve]'
	touch $@

$(TESTS): $(RUNS)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[train,endpoints,serve,trackers,dev]'
	touch $@

clean:
	rm -rf $(VENV) .pytest_cache .ruff_cache
