# make lab    JupyterLab, first lesson open          make book   the static site
# make test   everything CI runs                     make build  notebooks from the lessons
# make train-demo  a model of your own in five minutes    make soak  long campaigns, hours

PYTHON ?= python3
VENV ?= .venv
BIN := $(abspath $(VENV))/bin
READY := $(VENV)/.ready
PIP_ARGS ?=
export PATH := $(BIN):$(PATH)

.PHONY: lab test check build book bench train-demo soak mutants clean

lab: $(READY)
	course lab

test: $(READY)
	python -m pytest --numprocesses auto --dist loadscope --no-loadscope-reorder

check: $(READY)  # the fast part of test: ruff, stale files and the rules of the house
	python -m pytest tests/test_house.py tests/test_views.py

build: $(READY)
	course build

book: $(READY)
	course book --serve

bench: $(READY)
	for name in benchmarks/[a-qs-z]*.py; do python -m benchmarks.$$(basename $$name .py) || [ $$? = 2 ] || exit 1; done  # 2: not on this machine

train-demo: $(READY)  # five minutes: a model of your own, beside what counting reaches
	python -m course_lib.training.demo

soak: $(READY)  # the long forms of what the tests do briefly; takes hours
	COURSE_SOAK=1 python -m pytest -m soak -v

mutants: $(READY)  # every small change of every right answer, judged by its checks; a quarter of an hour on two cores
	python -m tests.mutation.judge

$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; v = sys.version_info; sys.exit(0 if v >= (3, 11) else \
	  f"the course needs Python 3.11 or newer, this is {v[0]}.{v[1]}; try: make PYTHON=python3.12 $(MAKECMDGOALS)")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check $(PIP_ARGS) pip==26.3
	$(BIN)/python -m pip install --quiet --no-compile $(PIP_ARGS) --requirement constraints.txt
	$(BIN)/python -m pip install --quiet --no-deps --editable .
	$(BIN)/python -m pip check
	touch $(READY)

clean:
	rm -rf _build
