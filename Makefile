# Every target works from a fresh clone: it makes its own environment in .venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
SOURCES := $(shell find src -name '*.py' -o -name '*.pyi' -o -name '*.hpp' -o -name '*.cpp') CMakeLists.txt pyproject.toml

.PHONY: demo test bench papers lint docs clean

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
	$(BIN)/python -m pip install --quiet ".[test]" --config-settings=cmake.define.MULTIMARGIN_WERROR=ON
	touch $@

$(VENV)/lint.stamp: $(VENV)/test.stamp
	$(BIN)/python -m pip install --quiet "ruff>=0.8" "mypy>=1.13"
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

bench: $(VENV)/bench.stamp
	$(BIN)/python benchmarks/compare.py

papers: $(VENV)/bench.stamp
	$(BIN)/python benchmarks/papers/run_all.py

lint: $(VENV)/lint.stamp
	$(BIN)/ruff check src tests benchmarks examples
	$(BIN)/ruff format --check src tests benchmarks examples
	$(BIN)/mypy

docs: $(VENV)/docs.stamp
	$(BIN)/sphinx-build -W --keep-going -q -b html docs docs/_build/html
	@echo "docs/_build/html/index.html"

clean:
	rm -rf $(VENV) build docs/_build docs/gallery docs/generated docs/sg_execution_times.rst
