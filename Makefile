# Everything built outside the checkout lives here and survives a fresh clone.
STS_PLUS_CACHE ?= $(HOME)/.cache/sts-plus
export STS_PLUS_CACHE
# The folder that cargo uses by itself, so that `cargo run` and `make` share what they compile.
CARGO_TARGET_DIR ?= $(CURDIR)/target
export CARGO_TARGET_DIR
.PHONY: test lint testbed fuzz simulate bench bench-cluster bench-statefulset fidelity fmt dist recording crds schemas

# The README's test command. Go first, then Rust: two builds at once are slower than one after the other.
test: ; @tests/run
testbed: ; @tests/testbed/build.sh
# The second pass checks the binary of the image, which has no playground and which `make test` does not build.
lint:
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --locked -- -D warnings
	cargo clippy --workspace --bin sts-plus --no-default-features --locked -- -D warnings
fmt: ; cargo fmt --all
# Runs seeds of the simulator: make simulate SEEDS=10000 FIRST=1; with TRACE=1 it tells what happens. See docs/simulation.md.
simulate: ; cargo run --locked -q --release -p sts-plus-simulate --bin sts-plus-simulate -- --first $(or $(FIRST),1) --seeds $(or $(SEEDS),1000) $(if $(TRACE),--trace)
# One target with libFuzzer, which takes a C++ compiler and a stable Rust: make fuzz TARGET=json_patch SECONDS=60. What it finds is kept in fuzz/artifacts.
fuzz: ; mkdir -p fuzz/artifacts/$(TARGET) $(fuzzing)/corpus/$(TARGET) && cp Cargo.lock fuzz/ && \
	RUSTFLAGS="$(coverage)" CARGO_TARGET_DIR=$(fuzzing) cargo run --manifest-path fuzz/Cargo.toml --release --target $(shell uname -m)-unknown-linux-gnu --bin $(TARGET) -- \
	$(fuzzing)/corpus/$(TARGET) fuzz/corpus/$(TARGET) -artifact_prefix=fuzz/artifacts/$(TARGET)/ -max_total_time=$(or $(SECONDS),60) -max_len=16384 -timeout=20 -rss_limit_mb=2048
fuzzing = $(CARGO_TARGET_DIR)/fuzz
coverage = --cfg fuzzing -C codegen-units=1 -C passes=sancov-module -C llvm-args=-sanitizer-coverage-level=4 -C llvm-args=-sanitizer-coverage-inline-8bit-counters -C llvm-args=-sanitizer-coverage-pc-table -C llvm-args=-sanitizer-coverage-trace-compares
# The memory and speed of the embedded cluster, as the rows of a table in docs/benchmarks.md.
bench-cluster: testbed
	cargo run --locked -q --release -p sts-plus-simulate --bin bench-cluster
	cargo run --locked -q --release -p sts-plus-bench --bin server-speed
	cargo build --locked -q -p sts-plus-cli
	cargo run --locked -q --release -p sts-plus-bench --bin first-screen -- --binary $(CARGO_TARGET_DIR)/debug/sts-plus
# The chart's copy of the kinds, after a change of their types in crates/api.
crds: ; cargo build --locked -p sts-plus-cli && $(CARGO_TARGET_DIR)/debug/sts-plus crds >charts/sts-plus/files/crds.yaml
# The schemas of built-in kinds that the embedded cluster serves and what they do not say of Go, after a change of the test bed's Kubernetes.
schemas: testbed
	cargo run --locked -q -p sts-plus-harness --bin schemas >$(CARGO_TARGET_DIR)/schemas.json
	cd tests/testbed/kubernetes && GOWORK=off CGO_ENABLED=0 go run . <$(CARGO_TARGET_DIR)/schemas.json >$(CARGO_TARGET_DIR)/go_fields.json
	cd tests/testbed/kubernetes && GOWORK=off CGO_ENABLED=0 go run . protobuf <$(CARGO_TARGET_DIR)/schemas.json >$(CARGO_TARGET_DIR)/protobuf.json
	mv $(CARGO_TARGET_DIR)/schemas.json $(CARGO_TARGET_DIR)/go_fields.json $(CARGO_TARGET_DIR)/protobuf.json crates/cluster/src/kinds
# The same requests to the embedded API server and to the real one; rewrites docs/fidelity.md.
fidelity: testbed ; FIDELITY_REWRITE=1 cargo test --locked -p sts-plus-fidelity
# The recording of the README, from the playground as it is now: half a minute of it.
recording: ; cargo build --locked -p sts-plus-cli && cargo run --locked -q -p sts-plus-cli --example recording >$(CARGO_TARGET_DIR)/playground.svg && mv $(CARGO_TARGET_DIR)/playground.svg docs/playground.svg
# The binary of the image: static, so that an image needs nothing else, and without the playground. See Containerfile.
dist: ; RUSTFLAGS="-C target-feature=+crt-static" cargo build --locked --profile dist --no-default-features --target $(shell uname -m)-unknown-linux-gnu -p sts-plus-cli
# Measures that binary and rewrites the tables of docs/benchmarks.md; PARTS=bc measures only those.
bench: testbed dist ; $(measure) $(PARTS)
# The StatefulSet controller beside kube-controller-manager's, an hour; RUNS=1 ONLY=ours PARTS=f is a quick look that leaves the page alone.
bench-statefulset: testbed dist ; $(measure) $(if $(RUNS),--runs $(RUNS)) $(if $(ONLY),--only $(ONLY)) $(or $(PARTS),fm)
measure = cargo run --locked --release -p sts-plus-bench -- --page docs/benchmarks.md --binary $(CARGO_TARGET_DIR)/$(shell uname -m)-unknown-linux-gnu/dist/sts-plus
