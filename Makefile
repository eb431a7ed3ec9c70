# Every target sets up what it needs in .venv, from nothing; all they want is Python 3.11 or newer.

PYTHON ?= python3
BIN    := .venv/bin
PIP    := $(BIN)/python -m pip --disable-pip-version-check --quiet
GIVEN  := pyproject.toml constraints.txt
SAMPLE ?= all
SECONDS ?= 300
CASES ?= 1000000
JOBS ?= 1
ROUNDS ?= 3
ONLY ?=
PEERS := onnx onnx-ir onnxruntime onnxscript onnxsim onnxslim openvino nnef ncnn polygraphy

export PIP_ROOT_USER_ACTION := ignore
# mkdocs-material announces its successor at every build otherwise; mkdocs.yml is written so that Zensical can take over.
export NO_MKDOCS_2_WARNING := true

.PHONY: dist demo test laws fuzz signatures structures faults conformance check lint types layers known-codes format bench bench-peers docs codes views emitted constraints clean

demo: .venv/product  ## the tour: a shipped model checked, run, compared and converted
	$(BIN)/graphport demo

test: .venv/test  ## every test but the conformance suites
	$(BIN)/python -W error -m pytest -q -n auto -m "not conformance"

conformance: .venv/test  ## the suites that others wrote; SAMPLE=200 runs 200 of them
	$(BIN)/python -W error -m pytest -q -n auto -m conformance $(if $(filter all,$(SAMPLE)),,--sample $(SAMPLE))

laws: .venv/test  ## the random laws with ten times the examples that CI tries
	GRAPHPORT_EXAMPLES=400 $(BIN)/python -W error -m pytest -q -n auto -m "hypothesis and not conformance"

fuzz: .venv/test  ## files of every format damaged at random; SECONDS=3600 does it for an hour
	$(BIN)/python tools/fuzz.py --seconds $(SECONDS) --cases $(CASES) --jobs $(JOBS)

signatures: .venv/test  ## models generated from operator signatures; CASES=20000 of each format
	$(BIN)/python tools/fuzz.py --signatures --seconds 36000 --cases $(CASES) --jobs $(JOBS)

structures: .venv/test  ## what is made to be hard to take, of every format
	$(BIN)/python tools/fuzz.py --structures --seconds 36000

faults: .venv/test  ## every system call of every writer fails, or ends it; needs Linux and a C compiler
	$(BIN)/python tools/faults.py

check: lint types layers known-codes docs  ## all that is read and not run; `make -k check` goes on after a failure

lint: .venv/check
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/python tools/measure_language.py --check

types: .venv/check .venv/docs .venv/test
	$(BIN)/pyright

layers: .venv/check
	$(BIN)/lint-imports --no-logo

known-codes: .venv/product
	$(BIN)/python tools/diagnostic_codes.py --check

format: .venv/check  ## what the formatter and the linter can set right by themselves
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: .venv/test  ## what measures us
	$(BIN)/python -m pytest -q -n0 --benchmark-enable benchmarks

bench-peers:  ## ours beside the newest versions of others, in an environment of its own, into docs/benchmarks.md
	test -x .venv-peers/bin/python || $(PYTHON) -m venv .venv-peers
	.venv-peers/bin/python -m pip install --disable-pip-version-check --quiet --upgrade . $(PEERS)
	.venv-peers/bin/python -m benchmarks.peers.page --rounds $(ROUNDS) --only "$(ONLY)"

docs: .venv/docs  ## the documentation, into site/
	PYTHONPATH=. $(BIN)/mkdocs build --strict --quiet

views: .venv/product  ## the views of operators, from the signatures of their pages
	$(BIN)/python tools/operator_views.py

emitted: .venv/test  ## what each rule emits, as the tests see it, for `graphport ops`
	CI=true $(BIN)/python tools/emitted.py

codes: .venv/product  ## the codes of diagnostics for `graphport explain`, and the table of Core ATen
	$(BIN)/python tools/diagnostic_codes.py
	$(BIN)/python -m tools.core_aten

constraints: .venv/test .venv/check .venv/docs  ## constraints.txt, from the newest that the ranges allow
	$(PIP) install --upgrade --upgrade-strategy eager --editable ".[all]" --group test --group check --group docs
	{ sed '/^[^#]/d' constraints.txt; $(PIP) list --format=freeze --exclude-editable; } > constraints.new
	mv constraints.new constraints.txt

dist: .venv/pip  ## sdist and wheel, each tried in an environment of its own: the tour, and a sample of the tests
	rm -rf dist
	$(PIP) install -c constraints.txt "hatchling>=1.27,<2"
	$(BIN)/hatchling build -d dist
	for each in dist/*.whl dist/*.tar.gz; do tools/try_dist.sh "$(PYTHON)" "$$each" || exit 1; done

clean:
	rm -rf .venv .venv-peers site dist .pytest_cache .ruff_cache .hypothesis .benchmarks .import_linter_cache

# The stamps are files in .venv, newer than what they were made from.

.venv/pip:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "graphport needs Python 3.11 or newer; say make PYTHON=…")'
	$(PYTHON) -m venv .venv
	$(PIP) install --upgrade -c constraints.txt pip
	@touch $@

.venv/product: .venv/pip $(GIVEN)
	$(PIP) install -c constraints.txt --editable ".[onnxruntime]"
	@touch $@

.venv/test .venv/check .venv/docs: .venv/%: .venv/product
	$(PIP) install -c constraints.txt --group $*
	@touch $@
