# By hand and in CI the same targets. `make demo` and `make test` are all that a new machine needs.
# PYTHON=/path/to/python3.11 chooses the Python of a new .venv.
# Images of containers like to set it. Hundreds of Pythons of the tests would each compile our modules anew.
unexport PYTHONDONTWRITEBYTECODE
BIN := .venv/bin
INSTALLED := .venv/installed

.PHONY: setup demo bench test durations test-unit test-process test-tf test-flink test-slow test-long test-models test-frameworks test-network test-kafka test-goodput test-benchmarks test-flinks matrix test-installs test-versions test-jars coverage fuzz simulate soak soak-kafka check fmt proto docs docs-links pictures screenshots versions release dist clean

STUBS := operators/params/accessors.pyi

setup: $(INSTALLED) $(STUBS)

$(INSTALLED): setup.py
	PYTHON='$(PYTHON)' scripts/make_venv.sh
	touch $@

# Setters and getters for mypy and editors. They are not in git, because they follow from the catalogs of parameters.
$(STUBS): $(INSTALLED) scripts/build_stubs.py bridge/settings.py $(wildcard operators/params/*.py)
	$(BIN)/python scripts/build_stubs.py

demo: setup
	$(BIN)/python examples/dnn_batch/job.py

# About 25 minutes on two cores that do nothing else; see benchmarks/README.md.
bench: setup
	$(BIN)/python benchmarks/bench.py

# Most of the time goes into waiting for processes to start, so more of them than cores take less of it.
TESTS_AT_ONCE ?= 3
SLOW_TESTS_AT_ONCE ?= 3
PYTEST := $(BIN)/python -m pytest

ARCHIVE := .venv/flink.jsa
$(ARCHIVE): $(INSTALLED)
	$(BIN)/python -m tests.support.class_archive

QUICK := not (cluster or slow or frameworks or long)
PLAIN := -m '$(QUICK)' --numprocesses $(TESTS_AT_ONCE) --dist loadfile --no-loadscope-reorder
test: setup $(ARCHIVE)
	AKDL_TEST_DURATIONS=build/durations/test.json $(PYTEST) $(PLAIN)

# Where the time of the last whole runs went, by file, fixture and test; keeps it in tests/durations.txt, which orders the next.
durations: setup
	$(BIN)/python -m tests.support.durations build/durations/*.json

# The lines that `make test` runs in its own and all other processes; fails below the floor in pyproject.toml.
# It takes a tenth more processor time in jobs, and half as much again in tests of pure code or of TensorFlow.
coverage: setup $(ARCHIVE)
	rm -rf build/coverage
	$(BIN)/coverage run -m pytest $(PLAIN)
	$(BIN)/coverage combine --quiet
	$(BIN)/coverage report

# What takes many seconds: clusters of several TaskManagers, groups that train in jobs, other versions, examples, pages.
test-slow: setup $(ARCHIVE)
	AKDL_TEST_DURATIONS=build/durations/test-slow.json $(PYTEST) -m '(cluster or slow) and not long' --numprocesses $(SLOW_TESTS_AT_ONCE) --dist loadfile --no-loadscope-reorder

# What `make test` and `make test-slow` show in one form, in the others: before a release.
test-long: setup $(ARCHIVE)
	AKDL_TEST_DURATIONS=build/durations/test-long.json $(PYTEST) -m long --numprocesses $(SLOW_TESTS_AT_ONCE) --dist loadfile --no-loadscope-reorder

# The tiers of `make test`, each alone.
test-unit: setup
	$(PYTEST) -m 'not (process or tf or flink or cluster)'

test-process: setup
	$(PYTEST) -m 'process and not (tf or flink or cluster)'

test-tf: setup
	$(PYTEST) -m 'tf and not (flink or cluster)'

test-flink: setup
	$(PYTEST) -m 'flink and $(QUICK)'

# A Python with the frameworks of models and scripts but TensorFlow; needs a package index.
FRAMEWORKS := build/frameworks/bin/python
$(FRAMEWORKS): setup.py
	$(BIN)/uv venv --quiet --clear --python $(BIN)/python build/frameworks
	$(BIN)/uv pip install --quiet --python $@ --editable '.[keras,mlflow,onnxruntime,serve,torch]' jax onnx scikit-learn
	touch $@

# Models of all kinds through all doors.
test-models: setup $(FRAMEWORKS)
	AKDL_TEST_MODELS=$(CURDIR)/$(FRAMEWORKS) $(PYTEST) tests/akdl/serving/kinds tests/e2e/test_kinds.py

# Scripts of PyTorch and JAX.
test-frameworks: setup $(FRAMEWORKS)
	AKDL_TEST_TORCH=$(CURDIR)/$(FRAMEWORKS) AKDL_TEST_JAX=$(CURDIR)/$(FRAMEWORKS) $(PYTEST) -m frameworks

# Hosts whose network fails, and stopped Python workers, with the times of real jobs; minutes, mostly of waiting.
test-network: setup
	AKDL_TEST_NETWORK=1 AKDL_TEST_STOPPED_WORKER=1 $(PYTEST) tests/bridge/member/test_lost_members.py tests/e2e/test_stopped_worker.py \
	  tests/e2e/test_cut_host.py

# Processes, Python workers, TaskManagers, the broker and JobManagers are killed between topics of Kafka, half a minute each.
test-kafka: setup
	AKDL_TEST_KILLS=$${AKDL_TEST_KILLS:-10} $(PYTEST) -s --timeout 0 tests/e2e/test_kafka_kills.py

# 5,000 messages a second from topic to topic for an hour, with a new model each minute and a kill every AKDL_TEST_KILL_MINUTES, 5.
soak-kafka: setup
	AKDL_TEST_SOAK_S=$${AKDL_TEST_SOAK_S:-3600} $(PYTEST) -s --timeout 0 tests/e2e/test_kafka_kills.py -k test_soak

# A training of four workers, of which one is killed every AKDL_TEST_FAILURE_S, 60; prints the share of useful work.
test-goodput: setup
	AKDL_TEST_GOODPUT_MINUTES=$${AKDL_TEST_GOODPUT_MINUTES:-20} $(PYTEST) -s --timeout 0 tests/e2e/test_goodput.py

# The short form of each benchmark; `make test-slow` runs one of them.
test-benchmarks: setup
	$(PYTEST) tests/e2e/test_benchmarks.py

# Damaged messages, archives and texts, 100,000 of each kind, and random tables in files; `make test` tries some hundreds.
FUZZ_CASES ?= 100000
FUZZ_TABLES ?= 10000
fuzz: setup
	AKDL_FUZZ_CASES=$(FUZZ_CASES) $(PYTEST) tests/fuzz --timeout 0 --numprocesses $(TESTS_AT_ONCE)
	AKDL_TEST_TABLES=$(FUZZ_TABLES) $(PYTEST) tests/bridge/files/test_random_tables.py tests/operators/data/test_file_sources.py \
	  --timeout 0 --numprocesses $(TESTS_AT_ONCE)

# Schedules of groups, streams and their failures by seeds, a third of the number of each kind; a million take a night.
SCHEDULES ?= 1000000
simulate: setup
	AKDL_SIMULATE=$$(($(SCHEDULES) / 3)) $(PYTEST) tests/simulation -k promises --timeout 0 --numprocesses 2 --dist load

# Each extra in a fresh environment, on each Python here that it allows; about ten minutes, and needs a package index.
test-installs: setup
	AKDL_TEST_INSTALLS=1 $(PYTEST) tests/test_installs.py

# Rows, types, times, predictions, streams and kills with each older Flink; ten minutes each, and needs a package index.
IN_FLINKS := tests/bridge/codec tests/bridge/workarounds tests/e2e/test_types.py tests/e2e/test_rows.py tests/e2e/test_times.py \
  tests/e2e/test_predict.py tests/e2e/test_predict_tables.py tests/e2e/test_streams.py tests/e2e/test_stream_checkpoints.py \
  tests/e2e/test_exactly_once.py tests/e2e/test_restart.py
TOOLS := coverage crc32c cryptography fsspec grpcio-tools jsonschema matplotlib packaging pexpect pip pytest pytest-timeout pytest-xdist pyyaml wheel
test-flinks: setup
	set -e; for flink in $${FLINKS:-$$($(BIN)/python -c 'from akdl.versions import FLINKS; print(*FLINKS[:-1])')}; \
	  do $(MAKE) test-flink-$$flink; done

test-flink-%: build/flink-%/bin/python
	$< -m pytest -m '$(QUICK)' --numprocesses $(TESTS_AT_ONCE) --dist loadfile $(IN_FLINKS)

# A Python with another Flink.
.PRECIOUS: build/flink-%/bin/python
build/flink-%/bin/python: setup.py | $(INSTALLED) $(STUBS)
	$(BIN)/uv venv --quiet --clear --python $(BIN)/python build/flink-$*
	$(BIN)/uv pip install --quiet --python $@ --editable '.[$(if $(filter 1.20,$*),flink-1.20,flink)]' \
	  'apache-flink==$*.*' tensorflow-cpu==2.15.1 $(TOOLS)
	touch $@

# The cells of the table in docs/versions.md, with the Flink of .venv, or with FLINK=1.20; CELL=local-train is one of them.
local-train := tests/e2e/test_training.py::test_full_batch_descent_of_a_group_equals_that_of_one_process
local-predict := tests/e2e/test_predict.py::test_a_trained_table_predicts
local-kills := tests/e2e/test_exactly_once.py tests/e2e/test_stream_checkpoints.py::test_killed_program_continues_from_its_last_checkpoint
standalone-train := tests/e2e/test_training_cluster.py::test_keras_trains_with_parameter_servers_on_a_cluster
standalone-predict := tests/e2e/test_cluster.py::test_a_model_travels_with_the_job_that_predicts
standalone-kills := tests/e2e/test_stream_checkpoints.py::test_rows_arrive_at_least_once_when_a_task_manager_is_killed
# Hadoop's own small YARN with HDFS, whose jars come from a Maven repository.
yarn-train := tests/e2e/test_yarn.py::test_an_application_trains_in_two_containers_and_predicts
yarn-predict := tests/e2e/test_yarn.py::test_a_session_trains_predicts_and_grows
yarn-kills := tests/e2e/test_yarn.py::test_a_stream_has_each_row_once_after_its_container_was_killed
CELL ?= $(foreach place,local standalone yarn,$(place)-train $(place)-predict $(place)-kills)
IN_MATRIX := $(if $(FLINK),build/flink-$(FLINK)/bin/python,$(BIN)/python)
matrix: setup $(if $(FLINK),$(IN_MATRIX))
	$(IN_MATRIX) -m pytest $(foreach cell,$(CELL),$($(cell)))

# A job with each Flink, Python and TensorFlow of scripts/try_versions.py, written into docs/versions.md; needs a package index.
test-versions: setup
	$(BIN)/python scripts/try_versions.py $(CASES)

# Our Java texts and names of Flink's classes against the jars of each Flink; seconds, after some minutes of downloads.
test-jars: setup
	AKDL_TEST_JARS=1 $(PYTEST) tests/bridge/flink/test_flink_jars.py

# Jobs in a row in one program, each with a random fault; about ten minutes on two cores that do nothing else.
SOAK_JOBS ?= 200
soak: setup
	$(BIN)/python scripts/soak.py --jobs $(SOAK_JOBS)

check: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python scripts/check_prose.py
	$(BIN)/python scripts/count_any.py

fmt: setup
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

proto: setup
	$(BIN)/python scripts/build_proto.py

# All pages with the API reference, as HTML; without a network.
docs: setup
	$(BIN)/sphinx-build --fail-on-warning --keep-going --quiet --builder html docs build/docs

# Whether the links that leave the pages lead somewhere; needs a network.
docs-links: setup
	$(BIN)/sphinx-build --fail-on-warning --keep-going --quiet --builder linkcheck docs build/links

pictures: setup
	$(BIN)/python scripts/draw_docs.py

# The versions of akdl/versions.py, in the pages that name them.
versions: setup
	$(BIN)/python scripts/write_versions.py

# Pictures of real runs; with a browser, in about a minute.
screenshots: setup
	$(BIN)/python scripts/shoot_docs.py

# Puts the files of changes/ into CHANGELOG.md and writes the version everywhere; to be looked at and committed.
release: setup
	$(BIN)/python -m scripts.release $(VERSION)

# The wheel and the sources of a release, as files in dist/.
dist: setup
	rm -rf dist
	$(BIN)/python -m build
	$(BIN)/twine check --strict dist/*

clean:
	rm -rf .venv .venv-uv build dist *.egg-info $(STUBS)
