# Two commands do everything on a machine with Python 3.11+, make and git: `make demo` and `make test`.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test check bench clean
.DEFAULT_GOAL := test

# The stamp is written last, so an interrupted set-up is done again.
.venv/ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install -q --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $@

demo: .venv/ready
	$(BIN)/monolayer demo

test: check
	$(BIN)/python -m pytest -n 2 --dist worksteal

check: .venv/ready
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

bench: .venv/ready
	for script in bench/*.py; do echo "== $$script"; $(BIN)/python $$script || exit 1; done

clean:
	rm -rf .venv build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
