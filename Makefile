# `make help` lists every command. Each sets up first what it needs.
.DEFAULT_GOAL := help
BIN := .venv/bin
# In this order the processes of `make test` end at about the same time: the longest file comes first and short
# files come last. Each process keeps the broker that its first Kafka test has started.
TIERS := tests/kafka/test_verb_matrix.py tests/spark tests/airflow tests/kafka tests/unit
# Each target keeps the results of its newest run, for `make coverage-table`.
PYTEST = $(BIN)/python -m pytest -q --junitxml .cache/results/$@.xml
# Three, because tests wait a lot; files are handed out in the order in which they are named.
PROCESSES := --numprocesses 3 --dist loadfile --no-loadscope-reorder
# Empty means no, whatever the shell says: a test run starts some hundred Pythons, and without the bytecode of
# the first each of them compiles Airflow, pyspark and the tests anew.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: help
help: ## list the commands
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /|/' | awk -F'|' '{printf "  make %-15s %s\n", $$1, $$2}'

.PHONY: setup
setup: ## create .venv and .cache/jars; a moment when they are there
	@docker/setup.sh

# Part of the set-up that only tests with Spark gain by.
.PHONY: setup-tests
setup-tests:
	@docker/setup.sh --tests

.PHONY: stores
stores: setup-tests ## object stores for tests: Azurite and an S3 server; two minutes the first time
	@$(BIN)/python docker/store_servers.py

.PHONY: monitoring
monitoring: setup-tests ## a Prometheus for tests: Debian's package, unpacked
	@$(BIN)/python docker/monitoring_programs.py

.PHONY: mlflow
mlflow: setup ## an MLflow server for tests, in an environment of its own; a minute the first time
	@$(BIN)/python docker/mlflow_server.py

.PHONY: demo demo-stop
demo: setup ## start broker, generator and Airflow; watch events become tables
	@$(BIN)/tidemill dev demo

demo-stop: setup ## end all that `make demo` started
	@$(BIN)/tidemill dev demo-stop

.PHONY: screenshots
screenshots: setup-tests ## make README's pictures of the Streams page from a running demo
	@$(BIN)/python -m tests.demo.screenshots

.PHONY: examples
examples: setup-tests ## run the examples of textbooks, and compare their rows; NUMBERS="17 18" runs some
	@$(BIN)/python -m examples.proofs $(NUMBERS)

.PHONY: test test-unit test-monitoring test-stores test-spark test-kafka test-airflow test-demo test-browser test-mlflow test-helm
test: setup-tests ## all tests that need no more than this machine's Java and Python, in three processes
	@$(PYTEST) $(PROCESSES) $(TIERS)

test-unit: setup ## no Spark, no network; minutes, for fake drivers are real processes
	@$(PYTEST) tests/unit

test-stores: stores ## object stores on this machine; all that `make test` runs on the local disk alone
	@$(PYTEST) $(PROCESSES) --stores azurite,s3 tests/spark/test_log_store_races.py tests/stores \
		tests/unit/engine/test_zombies.py tests/unit/storage tests/unit/checkpoint tests/unit/ledger

test-monitoring: monitoring ## alerts and dashboards in a real Prometheus
	@$(PYTEST) tests/monitoring

test-spark: setup-tests ## one Spark session
	@$(PYTEST) tests/spark

test-kafka: setup-tests ## one real broker
	@$(PYTEST) tests/kafka

test-airflow: setup-tests ## Airflow's own classes and database
	@$(PYTEST) tests/airflow

test-demo: setup ## `make demo` as a person starts it: windows, alerts, Airflow; then `make demo-stop`
	@$(PYTEST) tests/demo

test-browser: setup-tests ## the Streams page in Debian's Chromium, over a real Airflow
	@$(PYTEST) tests/browser

test-mlflow: mlflow ## models in a real MLflow registry
	@$(PYTEST) tests/mlflow

test-helm: setup ## the chart, rendered; needs helm, no cluster
	@$(PYTEST) tests/helm

.PHONY: bench-overhead bench-payloads bench-files bench-sinks bench-checkpoint bench-doctor bench-reconcile bench-drain bench-maintenance bench-observe bench-page bench-dags soak soak-kills
bench-overhead: setup ## time against hand-written, tuned PySpark
	@$(BIN)/python -m tests.bench.overhead

bench-payloads: setup ## time of each payload decoder against Spark's own
	@$(BIN)/python -m tests.bench.payloads

bench-files: setup ## time of files through our decoders against Spark's own readers
	@$(BIN)/python -m tests.bench.files

bench-sinks: setup ## time of one read to several sinks against a pipeline for each
	@$(BIN)/python -m tests.bench.sinks

bench-checkpoint: setup ## time of looking at a checkpoint of 5,000 files
	@$(BIN)/python -m tests.bench.checkpoint

bench-doctor: setup ## time of the doctor for 1,000 pipelines
	@$(BIN)/python -m tests.bench.doctor

bench-reconcile: setup ## time and API calls of a reconciliation of 1,000 streams
	@$(BIN)/python -m tests.bench.reconcile

bench-drain: setup ## time of a drain under load, against the running batch's own
	@$(BIN)/python -m tests.bench.drain

bench-maintenance: setup ## time of a commit over 10,000 small ones, with maintenance in between
	@$(BIN)/python -m tests.bench.maintenance

bench-dags: setup ## time of parsing the DAGs of 1,000 pipelines
	@$(BIN)/python -m tests.bench.dag_parse

bench-page: setup-tests ## time of the Streams page with 1,000 pipelines, in Chromium
	@$(BIN)/python -m tests.bench.streams_page

bench-observe: setup ## time of a batch and of scrapes that metrics take, also of 1,000 pipelines
	@$(BIN)/python -m tests.bench.observe

soak: stores ## hours: random faults under load, all cases marked `soak`; ROUNDS=5 and MINUTES=3 do less
	@$(PYTEST) -m soak tests/soak $(TIERS) $(if $(ROUNDS),--rounds $(ROUNDS)) $(if $(MINUTES),--minutes $(MINUTES))

soak-kills: setup-tests ## 100 random kills of two real drivers while events flow; ROUNDS=5 does 10
	@$(PYTEST) tests/soak/test_kills.py $(if $(ROUNDS),--rounds $(ROUNDS))

.PHONY: coverage-table
coverage-table: setup ## all that it must do, with tests and their newest results; RUN=1 runs them first, ROWS="S15 S19"
	@$(BIN)/python -m tests.coverage.table $(if $(RUN),--run) $(ROWS)

.PHONY: images
images: setup ## build the images with docker or buildah; IMAGE_LOAD=command hands each to a cluster
	@$(BIN)/python docker/build_images.py

# KUBECONFIG names the cluster. IMAGE_LOAD hands an image to it, e.g. `kind load docker-image`; none where the
# cluster has the builder's images already.
.PHONY: e2e e2e-core
e2e: images ## images, chart and faults on a real cluster; ROUNDS=10 does fewer of the random ones
	@$(PYTEST) tests/e2e $(if $(ROUNDS),--rounds $(ROUNDS))

e2e-core: setup ## what CI runs of e2e, after `make images`: install, kill, drain, attack, verb, query, page, uninstall
	@$(PYTEST) tests/e2e -m core

# Tiers that CI runs late, in part or not at all.
BY_HAND := tests/soak tests/e2e tests/azure tests/mlflow tests/demo tests/browser

.PHONY: check fix
check: setup ## lint, format, types, import directions, plain English, generated files, fixtures of the late tiers; changes nothing
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

pins: setup ## write the pin files anew, after a change of versions or dependencies
	docker/pins.sh

.PHONY: clean
clean: ## remove caches of tools; keeps .venv, jars and data
	rm -rf .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache .cache/classes .cache/pinning
	find . -name __pycache__ -not -path './.venv/*' -prune -exec rm -rf {} +
