# Every target first installs what is missing (scripts/setup), so each works on a fresh machine.

CARGO ?= cargo
# A release has the services in accord, by their names; debug builds have programs of their own, which are linked sooner.
RELEASED = -p libacc -p accord --features accord/services
SERVICES = accord-coordinator accord-node-agent
PACKAGES = -p libacc -p accord-cuf -p accord -p accord-coordinator -p accord-node-agent

.PHONY: build debug mpi demo test test-long storm chaos conformance fuzz fuzz-corpus sanitize bench lint deny clean setup gpu-bundle deb release install uninstall

# What accord version says. A build from an archive may set it.
build: export ACCORD_COMMIT ?= $(shell git rev-parse HEAD 2>/dev/null)
build: setup
	$(CARGO) build --release --locked $(RELEASED) -p accord-cuf
	@for name in $(SERVICES); do ln -sfn accord target/release/$$name; done

debug: setup
	$(CARGO) build --locked $(PACKAGES)

# The MPI part, for the MPI that mpicc (or MPICC) names. All else builds and runs without.
mpi: setup
	scripts/build-mpi

# Without the part for CUDA Fortran.
demo: setup
	$(CARGO) build --release --locked $(RELEASED)
	@for name in $(SERVICES); do ln -sfn accord target/release/$$name; done
	scripts/demo

# The short tier: minutes.
test: setup
	scripts/test

# Everything: hours. PARTS names some of its parts.
test-long: setup
	scripts/test-long $(PARTS)

# 200 programs at once over three agents, and 1,000 one after the other.
storm: setup
	scripts/storm

# Every role hit by every fault in every phase; writes docs/reference/faults.md. TRIES for each role.
chaos: setup
	scripts/chaos

# Runs the conformance programs and writes docs/reference/conformance.md from what passed.
conformance: setup
	scripts/conformance

# Feeds every decoder that sees foreign bytes, each for so many seconds; make test does it for less than one.
FUZZ_SECONDS ?= 60
fuzz: setup
	$(CARGO) run --locked --profile fuzz -p accord-fuzz -- --seconds $(FUZZ_SECONDS) $(FUZZ_TARGETS)

# Looks for inputs that reach what the targets' seeds don't, and writes them to fuzz/corpus.
fuzz-corpus: setup
	scripts/fuzz-corpus $(FUZZ_SECONDS) $(FUZZ_TARGETS)

# Tests under ThreadSanitizer, and under Miri: takes the nightly toolchain with miri and rust-src, and half an hour.
sanitize: setup
	scripts/sanitize

bench: build
	scripts/bench

# One folder that checks GPUs on a machine with a driver: run gpu-check in it there.
gpu-bundle: setup
	scripts/gpu-bundle

# Where to: PREFIX (/usr/local), and DESTDIR ahead of it for packages. Build first (make), as yourself.
install:
	@PREFIX="$(PREFIX)" DESTDIR="$(DESTDIR)" scripts/install

uninstall:
	@PREFIX="$(PREFIX)" DESTDIR="$(DESTDIR)" scripts/install --uninstall

# A package for Debian and Ubuntu, out/accord_VERSION_ARCHITECTURE.deb.
deb: build
	scripts/deb

# All that a release consists of, out/release: archives, packages, image, debug symbols.
release: build
	scripts/release

lint: setup
	$(CARGO) fmt --check
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings
	scripts/build-mpi --lint

# Needs cargo-deny, which takes too long to build to be installed by setup; the house rules check most of it without.
deny: setup
	@$(CARGO) deny --version >/dev/null 2>&1 || { echo "make deny: no cargo-deny: cargo install --locked cargo-deny" >&2; exit 1; }
	$(CARGO) deny --locked check $(DENY)

clean:
	$(CARGO) clean
	rm -rf out

setup:
	@scripts/setup
