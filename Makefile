# `make help` lists every command. Each command first sets up what it needs.
.DEFAULT_GOAL := help
BIN := .venv/bin
# Short files run last, so that the processes of `make test` end at about the same time. The longest file of all
# runs first (tests/conftest.py). Each process keeps the broker that its first Kafka test starts.
TIERS := tests/spark tests/airflow tests/kafka tests/unit
# Each target keeps the results of its latest run for `make coverage-table`.
PYTEST = $(BIN)/python -m pytest -q --durations 10 --junitxml .cache/results/$@.xml
# Three processes on two cores, because tests wait a lot. Files are distributed in the order of the arguments.
PROCESSES := --numprocesses 3 --dist loadfile --no-loadscope-reorder
# Empty means no, and overrides the shell. A test run starts about a hundred Python processes. Without cached
# bytecode, each of them compiles Airflow, pyspark and the tests again.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: help
help: ## list the commands
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /|/' | awk -F'|' '{printf "  make %-15s %s\n", $$1, $$2}'

.PHONY: setup
setup: ## create .venv and .cache/jars; takes a second if they exist
	@docker/setup.sh

# The part of the set-up that speeds up tests with Spark.
.PHONY: setup-tests
setup-tests:
	@docker/setup.sh --tests

.PHONY: stores
stores: setup-tests ## install object stores for tests: Azurite and an S3 server; the first time takes two minutes
	@$(BIN)/python docker/store_servers.py

.PHONY: monitoring
monitoring: setup-tests ## install a Prometheus for tests: unpack Debian's package
	@$(BIN)/python docker/monitoring_programs.py

.PHONY: mlflow
mlflow: setup ## install an MLflow server for tests in a separate environment; the first time takes a minute
	@$(BIN)/python docker/mlflow_server.py

.PHONY: demo demo-stop
demo: setup ## start broker, generator and Airflow; watch events become tables
	@$(BIN)/tidemill dev demo

demo-stop: setup ## stop everything that `make demo` started
	@$(BIN)/tidemill dev demo-stop

.PHONY: screenshots
screenshots: setup-tests ## make README's pictures of the Streams page from a running demo
	@$(BIN)/python -m tests.demo.screenshots

.PHONY: examples
examples: setup-tests ## run the textbook examples and compare their rows; NUMBERS="17 18" selects some
	@$(BIN)/python -m examples.proofs $(NUMBERS)

.PHONY: test test-unit test-monitoring test-stores test-spark test-kafka test-airflow test-demo test-browser test-mlflow test-helm
test: setup-tests ## run all tests that need only Java and Python, in three processes
	@$(PYTEST) $(PROCESSES) $(TIERS)

test-unit: setup ## run the tests without Spark and network; takes minutes, because fake drivers are real processes
	@$(PYTEST) tests/unit

test-stores: stores ## run the storage tests of `make test` on local object stores
	@$(PYTEST) $(PROCESSES) --stores azurite,s3 tests/spark/test_log_store_races.py tests/stores \
		tests/unit/engine/test_zombies.py tests/unit/storage tests/unit/checkpoint tests/unit/ledger

test-monitoring: monitoring ## run the tests of alerts and dashboards in a real Prometheus
	@$(PYTEST) tests/monitoring

test-spark: setup-tests ## run the tests that share one Spark session
	@$(PYTEST) tests/spark

test-kafka: setup-tests ## run the tests that share one real broker
	@$(PYTEST) tests/kafka

test-airflow: setup-tests ## run the tests with Airflow's classes and database
	@$(PYTEST) tests/airflow

test-demo: setup ## run `make demo` and the tutorial as a user does: windows, alerts, Airflow, `make demo-stop`
	@$(PYTEST) tests/demo

test-browser: setup-tests ## test the Streams page of a real Airflow in Debian's Chromium
	@$(PYTEST) tests/browser

test-mlflow: mlflow ## test models in a real MLflow registry
	@$(PYTEST) tests/mlflow

test-helm: setup ## test the rendered chart; needs helm, no cluster
	@$(PYTEST) tests/helm

.PHONY: bench-overhead bench-payloads bench-files bench-sinks bench-checkpoint bench-doctor bench-reconcile bench-drain bench-maintenance bench-observe bench-page bench-dags soak soak-kills
bench-overhead: setup ## compare the run time with hand-written, tuned PySpark
	@$(BIN)/python -m tests.bench.overhead

bench-payloads: setup ## compare each payload decoder with Spark's
	@$(BIN)/python -m tests.bench.payloads

bench-files: setup ## compare our decoders on files with Spark's readers
	@$(BIN)/python -m tests.bench.files

bench-sinks: setup ## compare one read for several sinks with a pipeline for each
	@$(BIN)/python -m tests.bench.sinks

bench-checkpoint: setup ## time the inspection of a checkpoint of 5,000 files
	@$(BIN)/python -m tests.bench.checkpoint

bench-doctor: setup ## time the doctor for 1,000 pipelines
	@$(BIN)/python -m tests.bench.doctor

bench-reconcile: setup ## time a reconciliation of 1,000 streams and count its API calls
	@$(BIN)/python -m tests.bench.reconcile

bench-drain: setup ## compare a drain under load with the time of the running batch
	@$(BIN)/python -m tests.bench.drain

bench-maintenance: setup ## time a commit after 10,000 small ones, with maintenance between them
	@$(BIN)/python -m tests.bench.maintenance

bench-dags: setup ## time the parsing of the DAGs of 1,000 pipelines
	@$(BIN)/python -m tests.bench.dag_parse

bench-page: setup-tests ## time the Streams page with 1,000 pipelines in Chromium
	@$(BIN)/python -m tests.bench.streams_page

bench-observe: setup ## time what metrics add to a batch, and scrapes of 1,000 pipelines
	@$(BIN)/python -m tests.bench.observe

soak: stores ## run all cases marked `soak` for hours: random faults under load; ROUNDS=5 and MINUTES=3 do less
	@$(PYTEST) -m soak tests/soak $(TIERS) $(if $(ROUNDS),--rounds $(ROUNDS)) $(if $(MINUTES),--minutes $(MINUTES))

soak-kills: setup-tests ## kill two real drivers 100 times while events flow; ROUNDS=5 does 10 kills
	@$(PYTEST) tests/soak/test_kills.py $(if $(ROUNDS),--rounds $(ROUNDS))

.PHONY: coverage-table
coverage-table: setup ## list all requirements with their tests and latest results; RUN=1 runs the tests first, ROWS="S15 S19" selects rows
	@$(BIN)/python -m tests.coverage.table $(if $(RUN),--run) $(ROWS)

.PHONY: images
images: setup ## build the images with docker or buildah; IMAGE_LOAD=command loads each into a cluster
	@$(BIN)/python docker/build_images.py

# KUBECONFIG names the cluster. IMAGE_LOAD loads an image into it, for example `kind load docker-image`. Leave it
# empty if the cluster shares the builder's images.
.PHONY: e2e e2e-core
e2e: images ## test images, chart and faults on a real cluster; ROUNDS=10 does fewer random faults
	@$(PYTEST) tests/e2e $(if $(ROUNDS),--rounds $(ROUNDS))

e2e-core: setup ## run CI's part of e2e, after `make images`: install, kill, drain, attack, verb, query, page, uninstall
	@$(PYTEST) tests/e2e -m core

# Tiers that CI runs late, partly or never.
BY_HAND := tests/soak tests/e2e tests/azure tests/mlflow tests/demo tests/browser

.PHONY: near
near: setup-tests ## run the checks and the nearest unit tests of the changed files, in about 20 s; SINCE=main compares with main
	@$(BIN)/python -m tests.near $(if $(SINCE),--since $(SINCE))

.PHONY: check fix
check: setup ## run lint, format, types, import directions, plain English, generated files, fixtures of late tiers; changes nothing
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	@$(BIN)/python -m tests.plain_english
	$(BIN)/tidemill dev generate --check
	@$(BIN)/python -m pytest -q --setup-plan $(BY_HAND) > .cache/fixtures.txt || { cat .cache/fixtures.txt; exit 1; }

fix: setup ## fix what ruff can fix automatically
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

.PHONY: generate pins
generate: setup ## write the conf reference, the JSON Schemas and the page of the examples
	$(BIN)/tidemill dev generate
	$(BIN)/python -m examples.proofs.page

pins: setup ## write the pin files after a change of versions or dependencies
	docker/pins.sh

.PHONY: clean
clean: ## remove the caches of tools; keeps .venv, jars and data
	rm -rf .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache .cache/classes .cache/pinning
	find . -name __pycache__ -not -path './.venv/*' -prune -exec rm -rf {} +
