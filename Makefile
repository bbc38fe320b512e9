# Each command works from a bare clone: what it needs goes into .venv, once.

VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
OUT ?= benchmarks/results

# The first Python that will do; `make PYTHON=/path/to/python test` overrides it.
WILL_DO := import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))
CANDIDATES := python3 python3.14 python3.13 python3.12 python3.11 python
BASE = $(or $(PYTHON),$(shell for p in $(CANDIDATES); do \
	"$$p" -c '$(WILL_DO)' >/dev/null 2>&1 && echo "$$p" && break; done))
GPU_PYTHON = $(or $(PYTHON),python3)

# Processes that run the tests; 0 runs them in one.
WORKERS ?= auto
PYTEST := $(BIN)/python -m pytest -q -n $(WORKERS) --maxprocesses 8

.PHONY: help test test-all demo bench reproduce gpu format clean

help:
	@echo "make test      lint, types, doctests, the README's code and all quick tests"
	@echo "make test-all  the same with the slow tests"
	@echo "make demo      a large table and a stream against scikit-learn, with figures"
	@echo "make bench     measure the CPU benchmarks and rewrite benchmarks/README.md"
	@echo "make reproduce published tables measured again; rewrites benchmarks/REPRODUCTIONS.md"
	@echo "make gpu       CUDA tests and benchmarks with what is installed (PYTHON=, OUT=)"
	@echo "make format    format the code and mend what the linter can mend"
	@echo "make clean     remove .venv and caches"

# torch comes as its CPU build where pip's configuration offers one. Triton runs
# without a GPU too (interpreted), but has no build for macOS: tests that need it skip.
$(READY): pyproject.toml constraints.txt
	@test -n "$(BASE)" || { echo "Tiercel needs Python 3.11 or newer with pip and venv;" \
		"none of: $(CANDIDATES) will do. Name one: make PYTHON=/path/to/python"; exit 1; }
	@$(BASE) -c '$(WILL_DO)' || { echo "$(BASE) will not do: Tiercel needs Python 3.11" \
		"or newer with pip and venv"; exit 1; }
	@echo "Making $(VENV) with $(BASE) (once; this takes a minute or two) ..."
	@$(BASE) -m venv $(VENV)
	@$(BIN)/python -m pip install -q -c constraints.txt $(PIP_ARGS) setuptools
	@$(BIN)/python -m pip install -q -c constraints.txt $(PIP_ARGS) \
		--no-build-isolation -e '.[dev]'
	@$(BIN)/python -m pip install -q -c constraints.txt $(PIP_ARGS) triton \
		|| echo "No Triton for this machine: tests of the fused kernels will be skipped."
	@touch $@

# Every check runs, whatever the one before it found; pytest has the last word.
define check
	@failed=; \
	$(BIN)/ruff check . || failed="$$failed lint"; \
	$(BIN)/ruff format --check . || failed="$$failed format"; \
	$(BIN)/mypy || failed="$$failed types"; \
	$(PYTEST) $(1) || failed="$$failed tests"; \
	test -z "$$failed" || { echo "failed:$$failed" >&2; exit 1; }
endef

test: $(READY)
	$(call check,)

test-all: $(READY)
	$(call check,-m "")

demo: $(READY)
	@$(BIN)/python -m demo

bench: $(READY)
	@$(BIN)/python -m benchmarks suite cpu --out $(OUT) && measured=0 || measured=1; \
	$(BIN)/python -m benchmarks table --out $(OUT) && exit $$measured

reproduce: $(READY)
	@$(BIN)/python -m benchmarks suite reproduce --out $(OUT) && measured=0 || measured=1; \
	$(BIN)/python -m benchmarks table --out $(OUT) && exit $$measured

# Nothing is installed here: the source tree and the machine's own packages must do.
gpu:
	@$(GPU_PYTHON) -c 'import sys, torch; sys.exit(not torch.cuda.is_available())' 2>/dev/null \
		|| { echo "make gpu: $(GPU_PYTHON) has no torch that finds a CUDA device"; exit 1; }
	@failed=; export PYTHONPATH=src; \
	$(GPU_PYTHON) -m pytest -q -m cuda tests || failed="$$failed tests"; \
	$(GPU_PYTHON) -m benchmarks suite gpu --out $(OUT) || failed="$$failed benchmarks"; \
	test -z "$$failed" || { echo "failed:$$failed" >&2; exit 1; }

format: $(READY)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf $(VENV) build dist src/*.egg-info
	rm -rf .hypothesis .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
