# Verbs of the project. `make quickstart` and `make test` are all the set-up there is: both make the virtual environment
# .venv of the project and install into it what they need.
PYTHON ?= python3
# The minor version of Spark: `make test SPARK=4.1` takes its newest release, in .venv-4.1.
SPARK := 4.3
PYSPARK := $(if $(filter 4.3,$(SPARK)),4.3.0,$(SPARK).*)
VENV := .venv$(if $(filter-out 4.3,$(SPARK)),-$(SPARK))
BIN := $(VENV)/bin
export PYSPARK_PYTHON := $(abspath $(BIN))/python
export PYSPARK_DRIVER_PYTHON := $(abspath $(BIN))/python
export SPARK_LOCAL_IP := 127.0.0.1
# Where it is set, each Python worker of Spark compiles the whole package again.
unexport PYTHONDONTWRITEBYTECODE

# Ends a process that is in a native call for 15 minutes, where the timeout of a test cannot interrupt it.
STUCK := -o faulthandler_timeout=900 -o faulthandler_exit_on_timeout=true

.PHONY: help quickstart jar test check test-engine test-connector test-docs durations bare get-started wheel soak fuzz mutants lint integration bench compare proto docs pages pictures clean
help:
	@sed -n 's/^\([a-z]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 14

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --upgrade pip

$(VENV)/.example: $(VENV)/bin/python pyproject.toml
	@command -v java >/dev/null || { echo "Spark needs Java 17 or later on the PATH: apt-get install openjdk-17-jre-headless"; exit 1; }
	$(BIN)/pip install --quiet --editable '.[example]'
	@$(BIN)/python -m lance_spark.spark.jvm.build || true
	@touch $@

$(VENV)/.dev: $(VENV)/bin/python pyproject.toml
	@command -v java >/dev/null || { echo "Spark needs Java 17 or later on the PATH: apt-get install openjdk-17-jre-headless"; exit 1; }
	$(BIN)/pip install --quiet --editable '.[dev]' 'pyspark[connect]==$(PYSPARK)'
	@$(BIN)/python -m lance_spark.spark.jvm.build || true
	@touch $@

quickstart: $(VENV)/.example ## install, then write, filter and time-travel a Lance table with a local Spark
	$(BIN)/python examples/quickstart.py

jar: $(VENV)/.dev ## compile the connector's Java side; needs a JDK
	$(BIN)/python -m lance_spark.spark.jvm.build

# `tests/support/tiers.py` says what each tier runs. The connector's tests run in processes of their own, because its jar
# takes over the short name that the plug-in has.
test: $(VENV)/.dev ## before a commit: every module, every statement and verb, in ten minutes
	@$(BIN)/python -m lance_spark.spark.jvm.build || true
	@LANCE_TIER=quick $(MAKE) --no-print-directory --keep-going test-engine test-connector

check: $(VENV)/.dev ## all that CI runs: lint, every test, the documents, the wheel where nothing else is and as a new user, other versions of Spark
	@$(BIN)/python -m lance_spark.spark.jvm.build || true
	@$(MAKE) --no-print-directory --keep-going --jobs 2 --output-sync=target bare get-started smoke-4.0 smoke-4.1 smoke-4.2 lint test-docs; \
		status=$$?; \
		LANCE_TIER=check $(MAKE) --no-print-directory --keep-going test-engine test-connector && exit $$status

test-engine: $(VENV)/.dev
	$(BIN)/python -m pytest -n 2 $(STUCK) tests --ignore=tests/connector --ignore=tests/docs

test-connector: $(VENV)/.dev
	$(BIN)/python -m pytest -n 2 $(STUCK) tests/connector

# In a process of its own, because documents show what a new catalog has.
test-docs: $(VENV)/.dev
	$(BIN)/python -m pytest -rs tests/docs

durations: $(VENV)/.dev ## run `check` and write how long each module took, by which `pytest -n` orders them
	LANCE_DURATIONS=1 $(MAKE) check

bare: $(VENV)/.dev ## the wheel without extras: lowest and highest versions of its dependencies, oldest and newest Python on the PATH or under pyenv
	@$(BIN)/python -m lance_spark.spark.jvm.build || true
	$(BIN)/python -m pytest -rsP integration/test_bare.py

# A new user follows the first page of the documentation in an environment of their own.
get-started: $(VENV)/.dev
	$(BIN)/python -m pytest integration/test_get_started.py -k 'local or reader or all_pages'

# Features of the connector and of the plug-in, each once.
smoke-%: $(VENV)/.dev
	$(BIN)/python -m pytest integration/test_spark_versions.py -k 'smoke and $*-last'

wheel: $(VENV)/.dev ## dist/: the wheel with a jar for each minor version of Spark, and the sdist; tried in clean environments
	rm -rf dist
	$(BIN)/python -m integration.wheel dist
	LANCE_WHEELS=$(abspath dist) $(BIN)/python -m pytest -rsP integration/test_wheel.py

soak: $(VENV)/.dev ## the same races, kills, damage and random histories as in `test`, for hours, then TPC-DS; set LANCE_SEED to repeat them
	LANCE_HISTORIES=$${LANCE_HISTORIES:-10000} LANCE_RACE_ROUNDS=$${LANCE_RACE_ROUNDS:-20} LANCE_KILLS=$${LANCE_KILLS:-200} \
		LANCE_FAULT_CALLS=$${LANCE_FAULT_CALLS:-200} LANCE_FLIPS=$${LANCE_FLIPS:-10000} \
		$(BIN)/python -m pytest --timeout=0 -s tests/table/test_races.py tests/table/test_kills.py tests/table/test_histories.py \
		tests/table/test_mixed_histories.py tests/table/commits/test_conflict_chains.py tests/table/test_two_libraries.py \
		tests/table/blobs/test_blob_histories.py tests/partitioned/test_histories.py tests/partitioned/test_faults.py tests/interop/test_corruption.py \
		tests/index/test_index_histories.py tests/index/test_deferred_compaction.py tests/index/test_index_lifecycle.py tests/index/test_build_conflicts.py tests/index/test_index_faults.py \
		tests/search/test_text_histories.py tests/table/vector_search/test_index_histories.py
	LANCE_RACE_ROUNDS=$${LANCE_RACE_ROUNDS:-20} LANCE_HISTORIES=$${LANCE_HISTORIES:-10000} LANCE_STREAM_KILLS=$${LANCE_STREAM_KILLS:-100} \
		$(BIN)/python -m pytest --timeout=0 -s \
		tests/connector/row_level/test_concurrent_merges.py tests/connector/statements/test_random_index_statements.py tests/connector/streaming/test_streaming_kills.py
	LANCE_EXAMPLES=$${LANCE_EXAMPLES:-5000} $(BIN)/python -m pytest --timeout=0 -s tests/interop/test_random.py
	$(BIN)/python -m benchmarks.tpcds --check

fuzz: $(VENV)/.dev ## damaged files, manifests, transactions and filters for some minutes; LANCE_FUZZ_SECONDS=300, LANCE_SEED to repeat
	$(BIN)/python -m tests.fuzz

mutants: $(VENV)/.dev ## one-line faults in the modules that may lose rows, and the share of them that the tests find; LANCE_SEED for others
	$(BIN)/pip install --quiet --editable '.[mutants]'
	$(BIN)/python -m tests.mutants --seed $${LANCE_SEED:-1}

lint: $(VENV)/.dev ## ruff, the layers' import contracts, mypy strict, generated code up to date
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
	$(BIN)/mypy
	$(BIN)/python proto/generate.py --check

integration: $(VENV)/.dev ## slow tests against real stores and clusters
	$(BIN)/python -m pytest integration

bench: $(VENV)/.dev ## decode and encode throughput beside the reference library
	$(BIN)/python -m benchmarks.decode

compare: $(VENV)/.dev ## TPC-H, single queries and TPC-DS in Spark beside its Parquet; SCALE=1 (of TPC-H), keeps and draws the ratios
	$(BIN)/pip install --quiet --editable '.[bench]'
	$(BIN)/python -m benchmarks.spark_compare --scale $${SCALE:-0.1} --ratios benchmarks/results/spark-compare.json
	$(BIN)/python docs/generators/pictures.py benchmark
	$(BIN)/python -m benchmarks.tpcds --scale $${TPCDS_SCALE:-0.05}

proto: $(VENV)/.dev ## regenerate lance_spark/_proto from proto/
	$(BIN)/python proto/generate.py

docs: $(VENV)/.dev ## the site, in build/site; a warning is an error
	$(BIN)/python docs/generators/site.py

pages: $(VENV)/.dev ## write the generated parts of the pages in docs
	$(BIN)/python docs/generators/generate_protocol.py
	$(BIN)/python docs/generators/generate_format_support.py
	$(BIN)/python docs/generators/generate_types.py
	$(BIN)/python docs/generators/generate_caches.py
	$(BIN)/python docs/generators/generate_catalogs.py
	$(BIN)/python docs/generators/generate_spark_versions.py
	$(BIN)/python docs/generators/generate_errors.py
	$(BIN)/python docs/generators/generate_procedures.py
	$(BIN)/python docs/generators/generate_functions.py
	$(BIN)/python docs/generators/generate_python_api.py

pictures: $(VENV)/.dev ## make the pictures of the pages again, in docs/assets/pictures; needs a browser on the PATH
	$(BIN)/python docs/generators/pictures.py

clean:
	rm -rf .venv .venv-* build dist .mypy_cache .ruff_cache .pytest_cache
