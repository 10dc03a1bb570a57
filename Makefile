# Common tasks; `make help` lists them.

CARGO ?= cargo
export RUSTFLAGS ?=
export RUSTDOCFLAGS = -D warnings

.PHONY: help build install demo test lint docs examples kernel test-linux test-slice test-long check-results torture-nbd papers bench \
	fuzz mutants publish-check release site wheel test-wheel

help:           ## This list
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' Makefile | expand -t 16

build:          ## The strobe program, fully optimised (about 4 minutes): target/dist/strobe
	$(CARGO) build --profile dist

install:        ## Installs it into ~/.cargo/bin, with manual pages and completions
	sh scripts/install.sh

demo:           ## Run the first example
	$(CARGO) run --release -- run examples/quickstart.toml

kernel:         ## Builds the kernel of `strobe linux` from the distribution's source (once; about 5 minutes on 2 cores)
	sh scripts/kernel.sh

test: lint      ## All checks of a change (about 7 minutes on 2 cores)
	python3 scripts/test.py
	$(MAKE) --no-print-directory examples docs

test-linux:     ## Tests with a real kernel: file systems, power cuts (4 minutes and the kernel)
	sh scripts/kernel.sh --tests
	STROBE_REQUIRE_KERNEL=1 python3 scripts/test.py --linux

lint:           ## Formatting, clippy, determinism bans, plain prose and licences; the fuzz targets compile
	sh scripts/setup.sh
	python3 scripts/prose.py --check
	python3 scripts/licences.py --check
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --quiet -- -D warnings
	$(CARGO) check --manifest-path fuzz/Cargo.toml --no-default-features --quiet --target-dir $${CARGO_TARGET_DIR:-target}

docs:           ## API documentation of all crates; users' pages have at most 14,500 words
	python3 scripts/words.py --most 14500
	$(CARGO) doc --workspace --no-deps --quiet

site:           ## The documentation as a site, target/site, with the figures of tested notebooks
	python3 scripts/site.py

examples:       ## Runs everything in examples/
	sh scripts/examples.sh

test-slice:     ## Ten minutes of the long suites, with seeds from the commit hash
	python3 scripts/test.py --slice

test-long:      ## Complete oracle tables and millions of power cuts, in release (about 25 minutes; with a kernel much longer)
	$(CARGO) test --release --workspace --no-fail-fast -- --ignored --nocapture --skip within_10_percent_of_the_model

torture-nbd:    ## Kills an NBD server during writes for 30 minutes, and checks for lost data
	$(CARGO) build --release --package strobe-cli --bin strobe
	python3 scripts/nbd_torture.py $${CARGO_TARGET_DIR:-target}/release/strobe --seconds 1800 --kills 100

check-results:  ## Checks invariants of COUNT random experiments (default 5000, about 5 minutes), from seed SEED
	$(CARGO) build --release --package strobe-cli --bin strobe
	STROBE=$${CARGO_TARGET_DIR:-target}/release/strobe python3 python/tests/checker.py \
		--count $(or $(COUNT),5000) --seed $(or $(SEED),0)

papers:         ## All published experiments into papers-out/, resumable (35 minutes on 2 cores, two hours more with `make kernel`)
	$(CARGO) run --profile dist -- paper trim --out papers-out
	$(CARGO) run --profile dist -- paper logical-copy --out papers-out
	$(CARGO) run --profile dist -- paper nvram --out papers-out
	$(CARGO) run --profile dist -- paper capi --out papers-out
	$(CARGO) run --profile dist -- paper placement --out papers-out

bench:          ## Speed of the simulator, compared with this machine's memory floor
	$(CARGO) run --profile dist -- bench

wheel:          ## Wheel of the Python package, fully optimised, for Python 3.11 and later (two dist builds): target/wheels/
	python3 scripts/wheel.py

test-wheel:     ## Tries a wheel of the dev build in a new environment without Rust
	python3 scripts/wheel.py --profile dev --check

fuzz:           ## 60 seconds of each fuzz target (needs a nightly toolchain and cargo-fuzz)
	sh scripts/fuzz.sh 60

mutants:        ## Mutations of the FTL, or of FILE, that no test detects (needs cargo-mutants; minutes each)
	sh scripts/mutants.sh $(FILE)

publish-check:  ## Packages all crates and builds each from its package (needs a clean tree)
	$(CARGO) publish --dry-run --locked --workspace

release:        ## Archives for Linux on x86-64 and aarch64, with manual pages and completions: target/release-files/
	sh scripts/release.sh
