# Every target names what it installs before it installs it, can be run twice,
# and works offline once the registries' caches are filled.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

CACHE := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/lancegate
SHARED_TARGET := /var/cache/lancegate/target

# The build's files stay outside the checkout. A folder that is already set
# wins; a machine's shared one is used where we may write it.
ifeq ($(origin CARGO_TARGET_DIR),undefined)
  ifneq ($(shell test -w $(SHARED_TARGET) -o "$$(id -u)" = 0 && echo yes),)
    CARGO_TARGET_DIR := $(SHARED_TARGET)
  else
    CARGO_TARGET_DIR := $(CACHE)/target
  endif
endif
export CARGO_TARGET_DIR

SUDO := $(shell test "$$(id -u)" = 0 || echo sudo)
QUICK := --profile quick --workspace
# Tests make the program fail at named places, which no other build has. Only
# the gateway itself is compiled anew for it; dependencies are the same.
TESTED := --features lancegate/failpoints
NEXTEST := $(shell cargo nextest --version >/dev/null 2>&1 && echo yes)

# One environment for each content of the list of packages.
REQUIREMENTS := tests/requirements.txt
VENV := $(CACHE)/venv-$(shell sha256sum $(REQUIREMENTS) | cut -c1-16)
export LANCEGATE_TEST_PYTHON := $(VENV)/bin/python

# $(call need,program,packages): installs Debian packages if the program is missing.
define need
@command -v $(1) >/dev/null || { \
	echo "installing from Debian: $(2), because $(1) is missing"; \
	$(SUDO) apt-get update -qq; \
	DEBIAN_FRONTEND=noninteractive $(SUDO) apt-get install -y -qq --no-install-recommends $(2); }
endef

.PHONY: help
help: ## List the targets.
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "%-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: demo
demo: tools ## Build with the quick profile and show the main job through psql.
	$(call need,psql,postgresql-client)
	@echo "building with the profile of the tests; the first time takes tens of minutes on two cores"
	cargo build $(QUICK)
	"$(CARGO_TARGET_DIR)/quick/lancegate" demo

.PHONY: test
test: lint python ## Run everything that CI runs.
	$(call need,psql,postgresql-client)
	$(call need,openssl,openssl)
	$(call need,java,default-jre-headless)
	@test -e /usr/share/java/postgresql.jar || { \
		echo "installing from Debian: libpostgresql-jdbc-java, because postgresql.jar is missing"; \
		$(SUDO) apt-get update -qq; \
		DEBIAN_FRONTEND=noninteractive $(SUDO) apt-get install -y -qq --no-install-recommends libpostgresql-jdbc-java; }
ifeq ($(NEXTEST),yes)
	cargo nextest run --cargo-profile quick --workspace $(TESTED)
else
	@echo "cargo-nextest is not installed (cargo install --locked cargo-nextest); using cargo test"
	cargo test $(QUICK) $(TESTED)
endif
	LANCEGATE_BIN="$(CARGO_TARGET_DIR)/quick/lancegate" python3 conformance/run --light

# What is installed is named by the run: Python and Node packages to the user's cache, packages of Debian.
.PHONY: conformance
conformance: tools python ## Run real clients on the gateway and render conformance/README.md.
	$(call need,npm,npm)
	cargo build $(QUICK) $(TESTED)
	LANCEGATE_BIN="$(CARGO_TARGET_DIR)/quick/lancegate" python3 conformance/run --write

.PHONY: lint
lint: tools ## Check the format, the dependencies and run clippy; a warning is an error.
	cargo fmt --all --check
	$(call need,python3,python3)
	python3 tests/dependencies.py
	cargo clippy $(QUICK) $(TESTED) --all-targets -- -D warnings

.PHONY: advisories
advisories: tools ## Ask the database of advisories about the dependencies; needs a network, and builds cargo-deny once.
	@command -v cargo-deny >/dev/null || { echo "building cargo-deny, because it is missing"; cargo install --locked cargo-deny; }
	cargo deny check

.PHONY: build
build: tools ## Build the release binary to bin/lancegate.
	@echo "building a release; the first time takes about 40 minutes on two cores"
	cargo build --release --bin lancegate
	install -D "$(CARGO_TARGET_DIR)/release/lancegate" bin/lancegate

# The program under measurement: LANCEGATE_BIN if it is set, else bin/lancegate
# if `make build` has made it, else a build of the quick profile, made here.
.PHONY: bench
bench: tools python ## Measure beside PostgreSQL, plain Lance and lancedb.
	@compgen -G '/usr/lib/postgresql/*/bin/pgbench' >/dev/null || { \
		echo "installing the Debian package postgresql: its server and pgbench are compared with"; \
		$(SUDO) apt-get update -qq; \
		DEBIAN_FRONTEND=noninteractive $(SUDO) apt-get install -y -qq --no-install-recommends postgresql; }
	@echo "installing peers: Debian's PL/Python, and the Python packages of bench/requirements.txt; what cannot be had is left out"
	@compgen -G '/usr/share/postgresql/*/extension/plpython3u.control' >/dev/null || { \
		version="$$(ls /usr/lib/postgresql | sort -n | tail -1)"; \
		DEBIAN_FRONTEND=noninteractive $(SUDO) apt-get install -y -qq --no-install-recommends "postgresql-plpython3-$$version" || true; }
	@"$(LANCEGATE_TEST_PYTHON)" -m pip install --quiet --disable-pip-version-check -r bench/requirements.txt || true
	@if test -z "$${LANCEGATE_BIN:-}" -a ! -x bin/lancegate; then \
		echo "bin/lancegate is missing: building and measuring the quick profile; run \`make build\` first for real figures"; \
		cargo build $(QUICK); \
	fi
	cargo build $(QUICK) --example measure
	"$(LANCEGATE_TEST_PYTHON)" bench/run

.PHONY: embedding
embedding: tools python ## Show a column of 200,000 embeddings of which 1 % fail, through psql (ROWS=200000).
	$(call need,psql,postgresql-client)
	@if test -z "$${LANCEGATE_BIN:-}" -a ! -x bin/lancegate; then cargo build $(QUICK); fi
	"$(LANCEGATE_TEST_PYTHON)" bench/embedding --rows $(or $(ROWS),200000)

.PHONY: example
example: tools ## Write config.example.toml again.
	cargo run --quiet --profile quick --bin lancegate -- config-example > config.example.toml.new
	mv config.example.toml.new config.example.toml

# Its requests are made from the document of the API; a run takes some minutes.
SCHEMATHESIS := conformance/suites/schemathesis
SCHEMATHESIS_VENV := $(CACHE)/schemathesis-$(shell sha256sum $(SCHEMATHESIS)/requirements.txt | cut -c1-16)

.PHONY: schemathesis
schemathesis: tools ## Ask every REST route of a gateway for what its document lets through.
	$(call need,psql,postgresql-client)
	cargo build $(QUICK)
	@test -e "$(SCHEMATHESIS_VENV)/.complete" || { \
		python3 -m venv "$(SCHEMATHESIS_VENV)" && \
		"$(SCHEMATHESIS_VENV)/bin/python" -m pip install --quiet --disable-pip-version-check -r $(SCHEMATHESIS)/requirements.txt && \
		touch "$(SCHEMATHESIS_VENV)/.complete"; }
	"$(SCHEMATHESIS_VENV)/bin/python" $(SCHEMATHESIS)/run "$(CARGO_TARGET_DIR)/quick/lancegate" $(EXAMPLES)

# What a build needs besides Rust.
.PHONY: tools
tools:
	@command -v cargo >/dev/null || { echo "Rust is missing; install it with rustup"; exit 1; }
	$(call need,protoc,protobuf-compiler libprotobuf-dev)
	$(call need,cc,build-essential)

# The Python environment of the tests.
.PHONY: python
python: $(VENV)/.complete

$(VENV)/.complete: | $(REQUIREMENTS)
	$(call need,python3,python3)
	@python3 -c 'import ensurepip' 2>/dev/null || { \
		echo "installing the Debian package python3-venv, because the module venv is missing"; \
		$(SUDO) apt-get update -qq; \
		DEBIAN_FRONTEND=noninteractive $(SUDO) apt-get install -y -qq --no-install-recommends python3-venv; }
	@echo "installing the Python packages of $(REQUIREMENTS) to $(VENV)"
	rm -rf "$(VENV)"
	python3 -m venv "$(VENV)"
	"$(VENV)/bin/python" -m pip install --quiet --disable-pip-version-check -r $(REQUIREMENTS)
	touch "$@"
