# The one entry for people and machines. `make help` lists what there is.

CARGO ?= cargo
export RUSTFLAGS ?=
export RUSTDOCFLAGS = -D warnings

.PHONY: help build install demo test lint docs examples kernel test-linux test-long check-results torture-nbd papers bench \
	fuzz publish-check release site wheel test-wheel

help:           ## This list
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' Makefile | expand -t 16

build:          ## The strobe program, optimised in full (about 4 minutes): target/dist/strobe
	$(CARGO) build --profile dist

install:        ## The same into ~/.cargo/bin, with manual pages and completions where the system looks for them
	sh scripts/install.sh

demo:           ## Run the first example
	$(CARGO) run --release -- run examples/quickstart.toml

kernel:         ## The kernel of `strobe linux`, once, from the distribution's source (about 5 minutes on 2 cores)
	sh scripts/kernel.sh

test: lint      ## Everything that must pass before a change is done (about 7 minutes on 2 cores)
	python3 scripts/test.py
	$(MAKE) --no-print-directory examples docs

test-linux:     ## A real kernel on the drive: file systems, power cuts (4 minutes and the kernel)
	sh scripts/kernel.sh --tests
	STROBE_REQUIRE_KERNEL=1 python3 scripts/test.py --linux

lint:           ## Formatting and clippy, determinism bans included; the fuzz targets compile
	sh scripts/setup.sh
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --quiet -- -D warnings
	$(CARGO) check --manifest-path fuzz/Cargo.toml --no-default-features --quiet --target-dir $${CARGO_TARGET_DIR:-target}

docs:           ## The documentation of all crates, warnings are errors; users' pages have at most 15,000 words
	python3 scripts/words.py --most 15000
	$(CARGO) doc --workspace --no-deps --quiet

site:           ## The documentation as a site, target/site: with the figures of notebooks that the tests have run
	python3 scripts/site.py

examples:       ## Runs everything in examples/
	sh scripts/examples.sh

test-long:      ## The full tables of oracles, and millions of power cuts, in release (about 25 minutes; with a kernel much longer)
	$(CARGO) test --release --workspace -- --ignored --nocapture

torture-nbd:    ## Kills a server of NBD in the midst of writes, over and over for 30 minutes, and looks for what was lost
	$(CARGO) build --release --package strobe-cli --bin strobe
	python3 scripts/nbd_torture.py $${CARGO_TARGET_DIR:-target}/release/strobe --seconds 1800 --kills 100

check-results:  ## Invariants of COUNT random experiments (default 5000, about 5 minutes), from seed SEED on
	$(CARGO) build --release --package strobe-cli --bin strobe
	STROBE=$${CARGO_TARGET_DIR:-target}/release/strobe python3 python/tests/checker.py \
		--count $(or $(COUNT),5000) --seed $(or $(SEED),0)

papers:         ## Published experiments, in full, into papers-out/, where they go on if stopped (20 minutes on 2 cores, two hours with `make kernel`)
	$(CARGO) run --profile dist -- paper trim --out papers-out
	$(CARGO) run --profile dist -- paper logical-copy --out papers-out
	$(CARGO) run --profile dist -- paper nvram --out papers-out
	$(CARGO) run --profile dist -- paper capi --out papers-out

bench:          ## Speed beside this machine's memory floor
	$(CARGO) run --profile dist -- bench

wheel:          ## The Python package with the program strobe in it, for any Python from 3.11 on (two dist builds): target/wheels/
	python3 scripts/wheel.py

test-wheel:     ## A wheel of what the tests have built, tried in a new environment without Rust
	python3 scripts/wheel.py --profile dev --check

fuzz:           ## 60 seconds of each fuzz target (needs a nightly toolchain and cargo-fuzz)
	sh scripts/fuzz.sh 60

publish-check:  ## Packages all crates and builds each from its package, as publishing would (needs a clean tree)
	$(CARGO) publish --dry-run --locked --workspace

release:        ## Archives for Linux on x86-64 and aarch64, with pages and completions: target/release-files/
	sh scripts/release.sh
