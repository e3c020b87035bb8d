//! What must hold of the embedded API server whatever bytes it is given.
//!
//! ```text
//! fuzz/corpus/TARGET/* ──┬──> this crate's test: each file, then seeded mutations of them
//!   fuzz/artifacts/* ────┼──> this crate's binary: one input again
//!          libFuzzer ────┴──> fuzz/fuzz_targets/TARGET.rs
//! ```
//!
//! A target is a function of bytes that panics where a promise is broken. Bytes that make no sense to a target are an
//! input like any other: they go to the server, which has to refuse them properly. The parts of an input stand apart by
//! lines of `%%`, so that people can write them.

#![allow(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::missing_panics_doc,
    reason = "this crate is a test, which clippy recognises by an attribute that it does not have"
)]

mod apply;
mod cluster;
pub mod mutation;
mod patches;
mod reference;
mod schemas;
mod selectors;

pub use apply::{apply_patch, server_side_apply};
pub use patches::{json_patch, merge_patch, strategic_patch};
pub use schemas::{built_in_schema, custom_schema};
pub use selectors::{field_selector, label_selector};

use std::path::PathBuf;

/// Something to give bytes to.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// What the corpus of it is called.
    pub name: &'static str,
    /// Panics where a promise is broken.
    pub run: fn(&[u8]),
}

/// All there are.
pub const TARGETS: [Target; 9] = [
    Target { name: "label_selector", run: label_selector },
    Target { name: "field_selector", run: field_selector },
    Target { name: "json_patch", run: json_patch },
    Target { name: "merge_patch", run: merge_patch },
    Target { name: "strategic_patch", run: strategic_patch },
    Target { name: "apply_patch", run: apply_patch },
    Target { name: "server_side_apply", run: server_side_apply },
    Target { name: "custom_schema", run: custom_schema },
    Target { name: "built_in_schema", run: built_in_schema },
];

/// Stack of the thread that an input runs on, in bytes: that of tokio's workers, where the server runs otherwise.
const STACK_BYTES: usize = 2 * 1024 * 1024;

impl Target {
    /// The target of this name.
    pub fn named(name: &str) -> Option<Target> {
        TARGETS.into_iter().find(|target| target.name == name)
    }

    /// Its corpus by file name, in order.
    pub fn corpus(&self) -> Vec<(String, Vec<u8>)> {
        let folder = PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").unwrap())
            .join("../../fuzz/corpus")
            .join(self.name);
        let entries = folder.read_dir().unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
        let mut files: Vec<_> = entries
            .map(|entry| entry.unwrap())
            .map(|entry| {
                (entry.file_name().to_string_lossy().into_owned(), std::fs::read(entry.path()).unwrap())
            })
            .collect();
        files.sort();
        files
    }

    /// Does some work on a thread with a stack like the server's; its panic is a panic here.
    pub fn on_a_small_stack(&self, work: impl FnOnce(fn(&[u8])) + Send + 'static) {
        let run = self.run;
        let thread = std::thread::Builder::new().name(self.name.to_owned()).stack_size(STACK_BYTES);
        let done = thread.spawn(move || work(run)).unwrap().join();
        if let Err(panic) = done {
            std::panic::resume_unwind(panic);
        }
    }
}

/// The parts of an input.
fn parts(data: &[u8]) -> Vec<&[u8]> {
    const SEPARATOR: &[u8] = b"\n%%\n";
    let mut parts = Vec::new();
    let mut rest = data;
    while let Some(at) = rest.windows(SEPARATOR.len()).position(|window| window == SEPARATOR) {
        parts.push(&rest[..at]);
        rest = &rest[at + SEPARATOR.len()..];
    }
    parts.push(rest);
    parts
}
