PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: quickstart test slow check bench world clean

quickstart: $(READY)  ## train the built-in tiny model against its own past, and report
	$(BIN)/equipoise run quickstart --out runs/quickstart --overwrite

test: $(READY)        ## the fast suite
	$(BIN)/python -m pytest

slow: $(READY)        ## the long tests: crashes, whole recipes
	$(BIN)/python -m pytest -m slow

check: $(READY)       ## style, types and the import law
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright
	$(BIN)/python -m pytest tests/test_import_law.py

bench: $(READY)       ## every benchmark, short settings (see docs/lab.md for the long ones)
	$(BIN)/python -m benchmarks

world: $(READY)       ## rebuild the built-in world's tiny model from its seed
	$(BIN)/python -m equipoise.worlds.build

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[train,dev]'
	touch $@

clean:
	rm -rf $(VENV) .quickstart .pytest_cache .ruff_cache
