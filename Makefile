# `make help` lists every command. Each sets up first what it needs.
.DEFAULT_GOAL := help
BIN := .venv/bin
TIERS := tests/unit tests/spark tests/kafka tests/airflow
PYTEST := $(BIN)/python -m pytest -q

.PHONY: help
help: ## list the commands
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /|/' | awk -F'|' '{printf "  make %-15s %s\n", $$1, $$2}'

.PHONY: setup
setup: ## create .venv and .cache/jars; a moment when they are there
	@docker/setup.sh

.PHONY: demo demo-stop
demo: setup ## start broker, generator and Airflow; watch events become tables
	@$(BIN)/tidemill dev demo

demo-stop: setup ## end all that `make demo` started
	@$(BIN)/tidemill dev demo-stop

.PHONY: test test-unit test-spark test-kafka test-airflow
test: setup ## all tests, the quick tiers first
	@$(PYTEST) $(TIERS)

test-unit: setup ## no Spark, no network; seconds
	@$(PYTEST) tests/unit

test-spark: setup ## one Spark session
	@$(PYTEST) tests/spark

test-kafka: setup ## one real broker
	@$(PYTEST) tests/kafka

test-airflow: setup ## Airflow's own classes and database
	@$(PYTEST) tests/airflow

.PHONY: bench-overhead soak
bench-overhead: setup ## time against hand-written, tuned PySpark
	@$(BIN)/python tests/bench/overhead.py

soak: setup ## minutes of random faults under load
	@$(PYTEST) tests/soak

.PHONY: check fix
check: setup ## lint, format, types, import directions, generated files; changes nothing
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/tidemill dev generate --check

fix: setup ## mend what ruff can mend
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

.PHONY: generate pins
generate: setup ## write the conf reference and the JSON Schemas
	$(BIN)/tidemill dev generate

pins: setup ## write the pin files anew, after a change of versions or dependencies
	docker/pins.sh

.PHONY: clean
clean: ## remove caches of tools; keeps .venv, jars and data
	rm -rf .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache .cache/classes .cache/pinning
	find . -name __pycache__ -not -path './.venv/*' -prune -exec rm -rf {} +
