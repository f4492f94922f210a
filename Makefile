# Every target works from a fresh clone: it makes its own environment in .venv.
PYTHON ?= python3
EXTRAS ?= test
VENV := .venv
BIN := $(VENV)/bin
SOURCES := $(shell find src -name '*.py' -o -name '*.pyi' -o -name '*.hpp' -o -name '*.cpp') CMakeLists.txt pyproject.toml

.PHONY: demo test spark bench papers lint docs fuzz fuzz-core fuzz-python damage sanitize sanitize-address sanitize-thread clean

# One stamp for each set of extras: the package is built and installed anew when a source changed.
$(VENV)/pip.stamp:
	@echo "Making an environment in $(VENV)"
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	touch $@

$(VENV)/demo.stamp: $(VENV)/pip.stamp $(SOURCES)
	@echo "Compiling and installing multimargin (a minute or two)"
	$(BIN)/python -m pip install --quiet ".[cli,plot]"
	touch $@

$(VENV)/test.stamp: $(VENV)/pip.stamp $(SOURCES)
	@echo "Compiling and installing multimargin (a minute or two)"
	$(BIN)/python -m pip install --quiet ".[$(EXTRAS)]" --config-settings=cmake.define.MULTIMARGIN_WERROR=ON
	touch $@

$(VENV)/lint.stamp: $(VENV)/test.stamp
	$(BIN)/python -m pip install --quiet "ruff>=0.8" "mypy>=1.13"
	touch $@

# PySpark is large (several hundred MB), so it is no part of the extra [test].
$(VENV)/spark.stamp: $(VENV)/test.stamp
	$(BIN)/python -m pip install --quiet "pyspark>=3.5"
	touch $@

$(VENV)/bench.stamp: $(VENV)/pip.stamp $(SOURCES)
	$(BIN)/python -m pip install --quiet ".[bench]"
	touch $@

$(VENV)/docs.stamp: $(VENV)/pip.stamp $(SOURCES)
	$(BIN)/python -m pip install --quiet ".[docs]"
	touch $@

demo: $(VENV)/demo.stamp
	$(BIN)/multimargin demo

test: $(VENV)/test.stamp
	$(BIN)/python -m pytest -n auto tests
	$(BIN)/python -m pytest -n 0 --pyargs multimargin

# The recipe for Spark, on a local one; needs Java.
spark: $(VENV)/spark.stamp
	@command -v java > /dev/null || { echo "make spark needs Java: install a JRE, 17 or later" >&2; exit 1; }
	$(BIN)/python -m pytest -n 0 -rs tests/spark

bench: $(VENV)/bench.stamp
	$(BIN)/python benchmarks/compare.py

papers: $(VENV)/bench.stamp
	$(BIN)/python benchmarks/papers/run_all.py

lint: $(VENV)/lint.stamp
	$(BIN)/ruff check src tests benchmarks examples fuzz
	$(BIN)/ruff format --check src tests benchmarks examples fuzz
	$(BIN)/mypy

docs: $(VENV)/docs.stamp
	$(BIN)/sphinx-build -W --keep-going -q -b html docs docs/_build/html
	@echo "docs/_build/html/index.html"

# Seconds of each target; .ci/run takes 60. With -j2 the core's targets and Python's run side by side. They print the
# seed, which is another one each time: FUZZ_SEED=N sets it.
FUZZ_SECONDS ?= 600
fuzz: fuzz-core fuzz-python

# By libFuzzer if clang++ and it are there, and Python's by atheris, which is libFuzzer for Python, if pip finds it; else, or
# with NO_LIBFUZZER=1, by fuzz/driver.cpp and fuzz/run.py themselves. Each ignores the other's flags.
fuzz-core:
	$(MAKE) -C fuzz OUT=$(abspath build/fuzz)
	for target in decimal svmlight state; do \
	  mkdir -p build/fuzz/found-$$target; \
	  (cd build/fuzz && ./$$target -seconds=$(FUZZ_SECONDS) -max_total_time=$(FUZZ_SECONDS) -timeout=10 $(FUZZ_SEED:%=-seed=%) \
	    found-$$target $(abspath fuzz/corpus)/$$target) || exit 1; \
	done

$(VENV)/atheris.stamp: $(VENV)/test.stamp
	$(BIN)/python -m pip install --quiet "atheris>=2.3" || echo "no atheris for this Python: inputs are chosen at random"
	touch $@

fuzz-python: $(if $(NO_LIBFUZZER),$(VENV)/test.stamp,$(VENV)/atheris.stamp)
	mkdir -p build/fuzz
	cd build/fuzz && $(abspath $(BIN))/python $(abspath fuzz/run.py) --seconds=$(FUZZ_SECONDS) $(FUZZ_SEED:%=--seed=%) \
	  $(if $(NO_LIBFUZZER),--no-atheris)

damage: $(VENV)/test.stamp
	$(BIN)/python benchmarks/damage.py

# The tests with a core that is compiled under a sanitizer, and with its library loaded before the interpreter, which is
# not compiled so. Leaks are not looked for: what the interpreter keeps until its end would be one.
# Left out: what opens a browser, the documents' programs, benchmarks, Spark, whose Java would have the library loaded, too,
# and the limit of memory, at which the sanitizer ends the program instead of giving no memory.
SANITIZED_TESTS ?= tests/core tests/data tests/problems tests/reductions tests/kernel tests/linear tests/estimators tests/models \
  tests/contracts tests/commands tests/distributed tests/displays tests/report tests/dask
THREADED_TESTS ?= tests/data tests/kernel tests/linear tests/estimators
LOADED = LD_PRELOAD="$$(g++ -print-file-name=lib$(1).so) $$(g++ -print-file-name=libstdc++.so.6)"

sanitize: sanitize-address sanitize-thread

build/sanitize-%/stamp: $(VENV)/test.stamp $(SOURCES)
	$(BIN)/python -m pip install --quiet --no-deps --upgrade --target build/sanitize-$* . \
	  --config-settings=cmake.define.MULTIMARGIN_SANITIZE=$* --config-settings=build-dir=build/cmake-$* \
	  --config-settings=install.strip=false
	touch $@

sanitize-address: build/sanitize-address/stamp
	$(call LOADED,asan) ASAN_OPTIONS=detect_leaks=0 UBSAN_OPTIONS=print_stacktrace=1 \
	  PYTHONPATH=build/sanitize-address $(BIN)/python -m pytest -n auto $(SANITIZED_TESTS) \
	  --ignore=tests/core/test_memory.py --ignore=tests/report/test_browser.py

sanitize-thread: build/sanitize-thread/stamp
	$(call LOADED,tsan) \
	  TSAN_OPTIONS="halt_on_error=1 ignore_noninstrumented_modules=1 log_path=$(abspath build/tsan)" \
	  PYTHONPATH=build/sanitize-thread $(BIN)/python -m pytest -n auto $(THREADED_TESTS) -k "thread or jobs or parallel"

clean:
	rm -rf $(VENV) build docs/_build docs/gallery docs/generated docs/sg_execution_times.rst
