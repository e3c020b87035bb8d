# Everything built outside the checkout lives here and survives a fresh clone.
STS_PLUS_CACHE ?= $(HOME)/.cache/sts-plus
export STS_PLUS_CACHE
export CARGO_TARGET_DIR ?= $(STS_PLUS_CACHE)/target
.PHONY: test lint testbed bench fmt

testbed: ; tests/testbed/build.sh
lint: ; cargo fmt --all --check && cargo clippy --workspace --all-targets --locked -- -D warnings
fmt: ; cargo fmt --all
