# Every target does its own set-up, once: the virtual environment, the package, a Java where none is, Kafka's jars.
NEW_ENOUGH := import sys; sys.exit(sys.version_info < (3, 11))
# The first Python that is new enough; else python3, about which set-up then complains.
PYTHON ?= $(or $(shell for p in python3 python3.14 python3.13 python3.12 python3.11; do \
  if $$p -c '$(NEW_ENOUGH)' 2>/dev/null; then echo $$p; break; fi; done),python3)
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
# The tests wait more than they work: two processes, each with brokers of its own, take little more than half the time.
AT_ONCE := -n 2 --dist loadfile --no-loadscope-reorder

.DEFAULT_GOAL := help
.PHONY: help demo test check bench fuzz clean setup

help:  ## show what can be made
	@grep -hE '^[a-z%-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## */\t/' | expand -t 10

demo: setup  ## two real clusters and what Twinlog can do today, in the terminal
	@$(BIN)/python -m twinlog.lab.demo

test: setup  ## every test, on real Kafka brokers
	@$(BIN)/python -m twinlog.lab.jars 4.3 3.9
	@$(BIN)/python -m twinlog.pipeline.archive
	@$(BIN)/python -m pytest $(AT_ONCE)

check: setup  ## format, lint, types, the tree's order, unit tests: a good minute
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@for each in examples/*/; do MYPYPATH=$$each $(BIN)/mypy --no-error-summary $$each*.py || exit 1; done
	@$(BIN)/lint-imports --no-logo
	@$(BIN)/python -m pytest -q $(AT_ONCE) -m "not broker and not java and not spark and not fuzz and not tools"

example-%: setup  ## a worked example: one-way, active-active, connect-rest, kubernetes, cloud, spark-cluster
	@$(BIN)/python examples/$*/run.py

bench: setup  ## measure on this machine; prints a table, writes build/bench.json
	@$(BIN)/python -m twinlog.pipeline.archive
	@$(BIN)/python -m twinlog.lab.bench

fuzz: setup  ## look for inputs that break the parsers, guided by coverage
	@$(BIN)/python -W ignore tests/fuzz/run.py --keep build/fuzz
	@$(BIN)/python -W ignore tests/fuzz/run.py --keep build/fuzz --replay

clean:  ## remove what the other targets made here (downloads stay in the user's cache folder)
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis

setup: $(READY)  ## the virtual environment only; the other targets do it by themselves

$(READY): pyproject.toml scripts/install $(wildcard requirements/*.txt)
	@PYTHON=$(PYTHON) scripts/install $(VENV) --dev
	@touch $@
