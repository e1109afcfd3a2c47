# Two commands do everything on a machine with Python 3.11+, make and git: `make demo` and `make test`.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test check browser bench tools docs serve clean
.DEFAULT_GOAL := test

# The demo needs little; everything else needs the developers' tools and every extra. A stamp is written last, so an
# interrupted set-up is done again.
PIP = $(BIN)/python -m pip install -q --disable-pip-version-check
INSTALL = $(PIP) -c constraints.txt -e

.venv/demo: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(INSTALL) '.[demo]'
	touch $@

.venv/ready: .venv/demo
	$(PIP) 'pip>=25.1'  # the first that knows dependency groups; Python 3.11 to 3.13 may bring an older one
	$(INSTALL) . --group dev
	touch $@

demo: .venv/demo
	$(BIN)/monolayer demo

test: check browser
	$(BIN)/python -m pytest -n 2 --dist worksteal

check: .venv/ready
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

# The report page is tested in Chromium, from the system's packages. Where it cannot be had, those tests say so and skip.
browser:
	@command -v chromium chromium-browser google-chrome >/dev/null \
	|| { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null \
	     && apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium >/dev/null; } \
	|| echo "no Chromium: tests of the report page will be skipped"

bench: .venv/ready
	$(BIN)/python bench/all_claims.py

# Packages of others that pages of the docs use: heavy, so the tests of those pages skip without them.
tools: .venv/ready
	$(INSTALL) '.[tools]'
	$(BIN)/python -m pytest tests/test_tools.py tests/test_docs.py

docs: .venv/ready
	PATH="$(CURDIR)/$(BIN):$$PATH" PYTHONPATH=docs/figures $(BIN)/zensical build --strict
	@echo "open build/site/index.html; make serve shows the same with its search"

# A browser lets no page search an index from the disk: the search needs a server.
serve: docs
	@echo "http://localhost:8000"
	$(BIN)/python -m http.server --bind localhost --directory build/site 8000

clean:
	rm -rf .venv .cache build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
