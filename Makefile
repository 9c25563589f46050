# Needs make and Python 3.11. Everything else goes into .venv.

PYTHON  ?= python3.11
VENV    ?= .venv
SCALE   ?=
MINUTES ?= 10
ARGS    ?=

PY       := $(VENV)/bin/python
PIP      := $(PY) -m pip --disable-pip-version-check
RUNTIME  := $(VENV)/.installed-runtime
DEV      := $(VENV)/.installed-dev
KERNELS  := $(VENV)/.compiled-kernels
# The kernels are compiled again when a file that holds one has changed.
COMPILED := $(shell grep -rl --include='*.py' -E '@(kernel|inlined|intrinsic)\b' precompute ingest query)

.DEFAULT_GOAL := help
.PHONY: help run demo test check docs bench bench-promql bench-http bench-sketches bench-plan differential corpus coverage accuracy chaos bench-cluster shapes clean

help:
	@echo "make run     start ASAP on 127.0.0.1:8088       (options: make run ARGS='--query-engine.http-port 9090')"
	@echo "make demo    the same, with a built-in source of sensor_reading"
	@echo "make test    all tests                          (some: make test ARGS='tests/asap_project -k config')"
	@echo "make check   ruff, mypy and the rules of imports, in seconds"
	@echo "make bench   measure beside Prometheus and VictoriaMetrics (SCALE=full: 189,000 series)"
	@echo "make accuracy  measure errors of estimates beside their bounds, write docs/accuracy.md"
	@echo "make bench-promql  measure PromQL over raw samples beside the same two (SCALE=full: 289,000 series)"
	@echo "make bench-http  measure small queries over HTTP beside Prometheus"
	@echo "make bench-sketches  measure updates, merges and estimates of all accumulators beside other packages"
	@echo "make bench-plan  measure what 200 aggregations over 100,000 series cost for each pane"
	@echo "make bench-cluster  measure a cluster's roles, with one and with two workers (SCALE=full: 984,000 series)"
	@echo "make differential  a hundred thousand random queries, answered alike by Prometheus (ARGS='--seed 7')"
	@echo "make corpus  every expression of CORPUS_DIR's dashboards, answered alike by Prometheus (ARGS='--seed 7')"
	@echo "make coverage  how much of CORPUS_DIR's dashboards a plan serves, into docs/planning.md"
	@echo "make chaos   MINUTES=10 of faults in a whole cluster, judged sample by sample (ARGS='--seed 7')"
	@echo "make shapes  which lines run as a single node or as a cluster alone, into docs/shapes.md"
	@echo "make docs    write docs/options.md and docs/metrics.md"
	@echo "make clean   remove .venv and caches; data stays"

run: $(KERNELS)
	@$(PY) manage.py runasap $(ARGS)

demo: $(KERNELS)
	@$(PY) manage.py runasap --demo.enabled true $(ARGS)

# One process more than cores: tests of whole clusters mostly wait.
test: $(DEV) $(KERNELS)
	$(PY) -m pytest -n $(shell expr $$(getconf _NPROCESSORS_ONLN) + 1) --dist worksteal $(ARGS)

check: $(DEV)
	$(PY) -m ruff check .
	$(PY) -m mypy
	$(PY) -m pytest -q tests/test_imports.py

docs: $(RUNTIME)
	@mkdir -p docs
	$(PY) manage.py options --format markdown > docs/options.md.new
	mv docs/options.md.new docs/options.md
	$(PY) manage.py metrics > docs/metrics.md.new
	mv docs/metrics.md.new docs/metrics.md

bench: $(DEV) $(KERNELS)
	$(PY) -m tests.bench.run $(if $(SCALE),--scale $(SCALE)) $(ARGS)

accuracy: $(DEV) $(KERNELS)
	$(PY) -m tests.bench.accuracy $(ARGS)

bench-promql: $(DEV) $(KERNELS)
	$(PY) -m tests.bench.promql $(if $(SCALE),--scale $(SCALE)) $(ARGS)

bench-http: $(DEV) $(KERNELS)
	$(PY) -m tests.bench.http $(ARGS)

bench-sketches: $(DEV) $(KERNELS)
	$(PY) -m tests.bench.sketches $(ARGS)

bench-plan: $(DEV) $(KERNELS)
	$(PY) -m tests.bench.plan $(ARGS)

bench-cluster: $(DEV) $(KERNELS)
	$(PY) -m tests.bench.cluster $(if $(SCALE),--scale $(SCALE)) $(ARGS)

differential: $(DEV) $(KERNELS)
	$(PY) -m tests.differential.run $(ARGS)

corpus: $(DEV) $(KERNELS)
	$(PY) -m tests.corpus.run $(ARGS)

coverage: $(DEV) $(KERNELS)
	$(PY) -m tests.corpus.coverage $(ARGS)

shapes: $(DEV) $(KERNELS)
	$(PY) -m tests.shapes.run

chaos: $(DEV) $(KERNELS)
	$(PY) -m tests.chaos.run --minutes $(MINUTES) $(ARGS)

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis *.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(PY):
	$(PYTHON) -m venv $(VENV)

$(RUNTIME): requirements.txt pyproject.toml | $(PY)
	@echo "installing what ASAP needs into $(VENV) …"
	$(PIP) install -q -r requirements.txt
	$(PIP) install -q --no-deps -e .
	@touch $@

$(DEV): requirements-dev.txt $(RUNTIME)
	$(PIP) install -q -r requirements-dev.txt
	@touch $@

$(KERNELS): $(RUNTIME) $(COMPILED)
	@$(PY) manage.py compilekernels
	@touch $@
