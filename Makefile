# Two commands on a fresh machine: `make demo` and `make test`. Everything else is for those who change the code.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready

.PHONY: help setup demo docs gallery fuzz kill lint test check format bench peers clean

help:            ## list the targets
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 12

setup: $(READY)  ## make .venv and install the project into it

$(READY): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	@touch $(READY)

demo: $(READY)   ## simulate, observe, train, predict, evaluate; prints a table and writes pictures to demo/
	$(BIN)/solid demo --out demo

test: $(READY)   ## the tests and the examples of the docstrings, under five minutes on two cores
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist loadfile

fuzz: $(READY)   ## 10,000 hostile tables, arrays, options and runs, minutes on two cores; FUZZ=500 is shorter
	FUZZ=$(or $(FUZZ),2100) OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist load tests/test_fuzz.py

kill: $(READY)   ## 200 SIGKILLs of every verb that writes, about half an hour; KILLS=20 is shorter
	OMP_NUM_THREADS=1 $(BIN)/python tests/kill.py $(or $(KILLS),200)

lint: $(READY)   ## lint, format, types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

check: lint test ## what must pass before a change is accepted

format: $(READY) ## let ruff rewrite the code in the house style
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: $(READY)   ## the documentation as a site in build/docs; a warning is an error, nothing is loaded from elsewhere
	$(BIN)/python -m sphinx -W --keep-going -q -b html docs build/docs

gallery: $(READY) ## run the scripts of gallery/ and draw the pictures of its page
	$(BIN)/python gallery/make.py

bench: $(READY)  ## the measured claims; results are stored under results/ with their provenance
	$(BIN)/python benchmarks/run.py

PEERS := deepsensor bayesnf gpboost

peers: $(PEERS:%=.peers/%/.ready) ## living rivals, an environment each in .peers/; solid bench peers --data DIR runs them

.peers/%/.ready: peers/%.txt
	$(PYTHON) -m venv .peers/$*
	.peers/$*/bin/python -m pip install --quiet --requirement $<
	@touch $@

clean:           ## remove what demo and tests made, keep the environment
	rm -rf demo .pytest_cache .ruff_cache .mypy_cache
