# `make` or `make help` lists what there is. Every target works from a clean clone, as root, on Debian 12 with a Rust
# toolchain; scripts/install-test-tools fetches the rest.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

CARGO ?= cargo
PREFIX ?= /usr/local
DESTDIR ?=
TARGET := $(abspath $(or $(CARGO_TARGET_DIR),target))
TOOLS := $(CURDIR)/target/tools/bin
export PATH := $(TOOLS):$(PATH):$(HOME)/.cargo/bin:/usr/local/go/bin:$(HOME)/go/bin:/usr/sbin:/sbin

# The real-mount tests, in the order in which they are run: quick ones first, so that a broken build fails early.
MOUNT_TESTS := errors lifecycle volumes trash writes writeback reads warmup storm cachedisk locks directory posix crash powercut lost race damage faults memory \
	programs model fsx

.PHONY: help
help: ## This list
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{ printf "  make %-16s %s\n", $$1, $$2 }'

.PHONY: demo
demo: ## Build, create and mount a volume, show it working on real files
	scripts/demo

.PHONY: build build-ci
build: ## The release binary: target/release/headrace
	scripts/install-test-tools build
	$(CARGO) build --release --locked -p headrace

build-ci: ## The binary the tests run: optimised, with debug assertions
	scripts/install-test-tools build
	$(CARGO) build --profile ci --locked -p headrace

.PHONY: test test-unit test-mount
test: ## Everything that must pass: unit tests, then the suites on real mounts
	scripts/install-test-tools build test
	if $(CARGO) fmt --version >/dev/null 2>&1 || [[ -n $${CI:-} ]]; then $(CARGO) fmt --all --check; fi
	scripts/run-tests all

test-unit: ## Unit and property tests only; no mount, no server
	scripts/install-test-tools build
	scripts/run-tests unit

test-mount: ## The suites on real mounts only; MOUNT_TESTS="errors locks" picks some
	scripts/install-test-tools build test
	scripts/run-tests mount $(MOUNT_TESTS)

.PHONY: lint advisories
lint: ## Format, clippy with warnings denied, licences and sources of dependencies, shell scripts
	scripts/install-test-tools build lint
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings
	cargo-deny --offline check licenses bans sources
	shellcheck scripts/* .ci/run

advisories: ## Dependencies: licences, sources, and known vulnerabilities (downloads the advisory database)
	scripts/install-test-tools build dependencies
	ADVISORIES=required scripts/check-dependencies

.PHONY: fuzz
fuzz: ## Every fuzzer for FUZZ_SECONDS each (600)
	scripts/install-test-tools build fuzz
	scripts/fuzz $(or $(FUZZ_SECONDS),600)

.PHONY: mutants
mutants: ## Every decision of crates/flow changed: a test must notice; hours; FILES="crates/flow/src/streams/*.rs" picks some
	scripts/install-test-tools build mutants
	scripts/mutants $(foreach file,$(FILES),'$(file)')

.PHONY: fsx
fsx: ## A million operations of fsx on each of three seeds
	scripts/install-test-tools build test
	HEADRACE_FSX_OPERATIONS=1000000 scripts/run-tests mount fsx

.PHONY: pjdfstest pjdfstest-c
pjdfstest: ## The POSIX suite (the one in Rust), on the local store and on S3
	scripts/install-test-tools build test
	scripts/run-tests mount posix

pjdfstest-c: ## The POSIX suite in C: PJDFSTEST_C=DIR names its source tree
	scripts/install-test-tools build
	scripts/pjdfstest-c "$(PJDFSTEST_C)"

.PHONY: torture crash powercut lost race damage
torture: ## All of the next five: about an hour
	$(MAKE) powercut damage crash lost race

crash: ## kill -9 of the daemon at any moment, 100 times on each kind of store
	scripts/install-test-tools build test
	HEADRACE_CRASH_ROUNDS=100 scripts/run-tests mount crash

powercut: ## 3,000 power cuts under the metadata engine, 300 under a whole volume
	scripts/install-test-tools build test
	HEADRACE_POWERCUT_ROUNDS=3000 scripts/run-tests mount powercut

lost: ## 100 machines lost with all they had, on each kind of store; the bucket brings the volume back
	scripts/install-test-tools build test
	HEADRACE_LOST_ROUNDS=100 scripts/run-tests mount lost

race: ## Two daemons fight for one volume, 200 rounds on each kind of store
	scripts/install-test-tools build test
	HEADRACE_RACE_ROUNDS=200 scripts/run-tests mount race

damage: ## 200 kinds of damage to segments, log, snapshots and engine, plain and encrypted
	scripts/install-test-tools build test
	HEADRACE_DAMAGE_CASES=200 scripts/run-tests mount damage

.PHONY: stress
stress: ## Longer: a directory of a million entries, 4,000 model cases, longer stressors
	scripts/install-test-tools build test
	HEADRACE_DIRECTORY_ENTRIES=1000000 HEADRACE_MODEL_CASES=4000 HEADRACE_STRESS_SECONDS=60 \
		scripts/run-tests mount directory model programs

.PHONY: faults
faults: ## Ten minutes of mixed load while one request in twenty fails, and outages of half a minute
	scripts/install-test-tools build test
	HEADRACE_FAULT_SECONDS=600 HEADRACE_OUTAGE_SECONDS=30 scripts/run-tests mount faults

.PHONY: memory
memory: ## The memory ceiling at full size: a million files, 1,000 streams, 10 GiB written and read
	scripts/install-test-tools build test
	HEADRACE_MEMORY_FILES=1000000 HEADRACE_MEMORY_STREAMS=1000 HEADRACE_MEMORY_MIB=10240 \
		scripts/run-tests mount memory

.PHONY: compare
compare: ## Headrace, its peers and the native file system side by side; QUICK=1 takes 10 minutes, PUBLISH=1 writes docs/benchmarks.md
	scripts/install-test-tools build bench
	scripts/compare $(if $(QUICK),--quick) $(if $(PUBLISH),--publish)

.PHONY: cache-bench cache-storm fuse-floor
fuse-floor: ## The same through a mount, through a server that does nothing, and on the disk: what the kernel takes; some ten minutes
	scripts/fuse-floor

cache-bench: ## Cached files through a mount against the disk itself, in turns; some five minutes
	scripts/cache-bench

cache-storm: ## 200,000 operations on cached, mapped and changing files, every byte read compared; some ten minutes
	HEADRACE_STORM=200000 $(CARGO) test --profile ci --locked -p headrace --test storm -- --nocapture

.PHONY: reads-bench
reads-bench: ## Cold reads: defaults against settings by hand, bare clients, faults; about an hour, QUICK=1 takes 15 minutes, PARTS=cpu,faults picks
	scripts/install-test-tools build bench
	scripts/compare reads $(if $(QUICK),--quick) $(if $(PARTS),--parts $(PARTS))

.PHONY: writes-bench
writes-bench: ## Writes: against bare clients, ext4 and JuiceFS, and reads beside them; an hour and a half, QUICK=1 takes 15 minutes, PARTS=sequential picks
	scripts/install-test-tools build bench
	scripts/compare writes $(if $(QUICK),--quick) $(if $(PARTS),--parts $(PARTS))

.PHONY: netlab-check
netlab-check: ## The network lab against its own settings to 5 %, and the server for benchmarks; on a quiet machine
	scripts/install-test-tools build bench
	$(CARGO) test --profile ci --locked -p headrace-netlab --test netlab exact -- --ignored --nocapture --test-threads=1
	$(CARGO) test --profile ci --locked -p headrace-testbed --test hybrid -- --ignored --nocapture --test-threads=1

.PHONY: bench-check bench-micro
bench-check: ## Instructions and copies of each layer against those recorded; UPDATE=1 records
	scripts/install-test-tools build micro
	scripts/bench-check $(if $(UPDATE),--update)

bench-micro: ## The same benchmarks, only measured; NAME=read picks some
	scripts/install-test-tools build micro
	scripts/bench-check --show $(NAME)

.PHONY: install
install: build ## Binary, mount helper, man pages and completions, below PREFIX (default /usr/local)
	scripts/install "$(TARGET)/release/headrace" "$(DESTDIR)" "$(PREFIX)"

.PHONY: clean
clean: ## Remove what was built; the test tools stay
	rm -rf "$(TARGET)"/{debug,ci,release,doc}
