# Every target runs the set-up once: virtual environment, package, Java if there is none, Kafka's jars.
NEW_ENOUGH := import sys; sys.exit(sys.version_info < (3, 11))
# The first Python that is new enough; else python3, for which the set-up reports an error.
PYTHON ?= $(or $(shell for p in python3 python3.14 python3.13 python3.12 python3.11; do \
  if $$p -c '$(NEW_ENOUGH)' 2>/dev/null; then echo $$p; break; fi; done),python3)
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
# Tests mostly wait: with two cores, three processes, each with its own brokers. See tests/schedule.py.
PARALLEL := --dist loadfile --no-loadscope-reorder
UNIT := not broker and not java and not spark and not fuzz and not tools and not heavy and not slow
# Without bytecode every process that a test starts would compile all modules.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help demo test test-slow test-all test-setup check lint unit bench soak fuzz clean setup

help:  ## list the targets
	@grep -hE '^[a-z%-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## */\t/' | expand -t 10

demo: setup  ## replicate between two real Kafka clusters, live in the terminal
	@$(BIN)/python -m demo

test: setup test-setup  ## run the tests, with real Kafka brokers
	@$(BIN)/python -m pytest -n 3 $(PARALLEL) -m "not slow" $(ARGS)

test-slow: setup test-setup  ## run the slow tests: examples, demo, image, fuzzing, a Spark cluster, rare faults, old Kafka versions
	@$(BIN)/python -m lab.jars 4.0 3.6 3.3 2.8
	@$(BIN)/python -m pytest -n 2 $(PARALLEL) -m slow $(ARGS)

test-all: test test-slow  ## run all tests

test-setup: setup
	@$(BIN)/python -m lab.jars 4.3 3.9
	@$(BIN)/python -m twinlog.spark.class_archive

check: setup  ## lint and unit, at the same time (less than a minute)
	@$(MAKE) --no-print-directory -j 2 lint unit

lint: setup  ## check format, lint, types, import layers, dead code
	@found=$$( { $(BIN)/ruff format --check . && $(BIN)/ruff check . && $(BIN)/mypy \
	  && for each in examples/*/; do MYPYPATH=$$each:. $(BIN)/mypy --no-error-summary $$each*.py || exit 1; done \
	  && $(BIN)/lint-imports --no-logo && $(BIN)/vulture; } 2>&1); code=$$?; echo "$$found"; exit $$code

unit: setup  ## run the tests that need nothing but Python
	@$(BIN)/python -m pytest -q -n 2 $(PARALLEL) -m "$(UNIT)" $(ARGS)

example-%: setup  ## run an example: one-way, active-active, connect-rest, kubernetes, cloud, spark-cluster
	@$(BIN)/python examples/$*/run.py

bench: setup  ## run the benchmarks (ARGS=far: over an emulated long link); prints tables, writes build/bench.json
	@$(BIN)/python -m twinlog.spark.class_archive
	@$(BIN)/python -m bench $(ARGS)

soak: setup  ## inject random faults while replicating (ARGS="--minutes 60 --seed 7"); see docs/soak.md
	@$(BIN)/python -m soak $(ARGS)

fuzz: setup  ## fuzz the parsers, guided by coverage
	@$(BIN)/python -W ignore tests/fuzz/run.py --keep build/fuzz
	@$(BIN)/python -W ignore tests/fuzz/run.py --keep build/fuzz --replay

clean:  ## remove everything created here (downloads stay in the user's cache folder)
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis

setup: $(READY)  ## create the virtual environment; all other targets do it if needed

$(READY): pyproject.toml scripts/install $(wildcard requirements/*.txt)
	@PYTHON=$(PYTHON) scripts/install $(VENV) --dev
	@touch $@
