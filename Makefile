# Two commands do everything on a machine with Python 3.11+, make and git: `make demo` and `make test`.
PYTHON ?= python3
BIN := .venv/bin
# The tests start hundreds of processes: where Python is told to write no bytecode, each would compile all its modules.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test check browser bench tools docs serve lock clean
.DEFAULT_GOAL := test

# Which versions `make test` installs: those of constraints.txt (locked), the oldest that pyproject.toml allows, or the
# newest that there are. `make clean` first, if .venv is there already.
DEPENDENCIES ?= locked
EXTRAS = stock,onnx,demo,words,lookup,parquet,report,sklearn,cluster

# The demo needs little; everything else needs the developers' tools and every extra, and nothing is installed twice. A
# stamp is written last, so an interrupted set-up is done again.
PIP = $(BIN)/python -m pip install -q --disable-pip-version-check
INSTALL = $(PIP) -c constraints.txt -e
ifeq ($(DEPENDENCIES),newest)
INSTALL = $(PIP) --upgrade -e
else ifeq ($(DEPENDENCIES),oldest)
INSTALL = $(PIP) uv && VIRTUAL_ENV=.venv $(BIN)/uv pip install -q --resolution lowest-direct -e
endif

.venv/made:
	$(PYTHON) -m venv .venv
	touch $@

.venv/demo: .venv/made pyproject.toml constraints.txt
	$(INSTALL) '.[demo]'
	touch $@

.venv/ready: .venv/made pyproject.toml constraints.txt
	$(PIP) 'pip>=25.1'  # the first that knows dependency groups; Python 3.11 to 3.13 may bring an older one
	$(INSTALL) '.[$(EXTRAS)]' --group dev
	touch .venv/demo $@  # what the demo needs is there too

demo: .venv/demo
	$(BIN)/monolayer demo

# Style and types are judged with the locked versions: others format otherwise, or know other types.
test: .venv/ready $(if $(filter locked,$(DEPENDENCIES)),check) browser
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
	$(BIN)/python docs/figures/build_site.py
	@echo "open build/site/index.html; make serve shows the same with its search. build/builder is the builder for a static host"

# A browser lets no page search an index from the disk: the search needs a server.
serve: docs
	@echo "http://localhost:8000"
	$(BIN)/python -m http.server --bind localhost --directory build/site 8000

# The newest versions that fit together, for every Python and machine, as constraints: a pylock.toml would have to name
# an address for each file, and these may come from any index. PyTorch is pinned by hand, and names its CUDA packages
# itself, where its build has them. Run the tests before you commit it.
TORCH = 2.13.0
lock: .venv/ready
	$(PIP) uv
	sed -i.old '/^[^#]/d' constraints.txt && rm constraints.txt.old
	mkdir -p build && echo 'torch==$(TORCH)' > build/torch.txt
	echo 'monolayer[$(EXTRAS),editors,real] @ .' | $(BIN)/uv pip compile -q --universal --python-version 3.11 \
	  -c build/torch.txt --group dev --no-emit-package monolayer --no-header --no-annotate - \
	  | grep -vE '^(nvidia|cuda|triton)' >> constraints.txt

clean:
	rm -rf .venv .cache build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
