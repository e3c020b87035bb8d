//! Inputs made of other inputs: what libFuzzer does, without its eyes.

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use crate::Target;

/// The seed where none is given, so that every run of the tests tries the same.
pub const SEED: u64 = 0x5eed;
/// Longest input that is made, in bytes: larger ones are slow and find nothing that these do not.
const MAX_BYTES: usize = 16 * 1024;
/// Most changes to one input.
const MAX_CHANGES: u32 = 4;

/// What inputs are made of, besides bytes of other inputs.
const WORDS: [&str; 40] = [
    "{}",
    "[]",
    "null",
    "true",
    "\"\"",
    "0",
    "-1",
    "1.0",
    "1e308",
    "9223372036854775807",
    "\"a\"",
    "\"name\"",
    ",",
    ":",
    "{\"a\":",
    "[[",
    "}}",
    "\n%%\n",
    "/-",
    "/0",
    "~1",
    "\\",
    "\u{e9}",
    "!",
    "!=",
    "==",
    " in (",
    ")",
    "\"$patch\":\"delete\"",
    "\"$patch\":\"replace\"",
    "\"$retainKeys\":[\"name\"]",
    "\"default\":",
    "\"type\":\"object\"",
    "\"type\":\"string\"",
    "\"items\":",
    "\"properties\":",
    "\"nullable\":true",
    "\"x-kubernetes-preserve-unknown-fields\":true",
    "\n",
    "\0",
];

/// Gives a target so many mutations of its corpus, and says which one broke a promise.
pub fn run(target: Target, seed: u64, count: u32) {
    println!("{}: seed {seed}, {count} mutations", target.name);
    let corpus: Vec<Vec<u8>> = target.corpus().into_iter().map(|(_, data)| data).collect();
    target.on_a_small_stack(move |run| {
        let mut chance = StdRng::seed_from_u64(seed);
        for number in 0..count {
            let data = mutated(&corpus, &mut chance);
            let told = Told { name: target.name, seed, number, data: &data };
            run(&data);
            std::mem::forget(told);
        }
    });
}

/// Tells of the input that a panic passes by.
struct Told<'a> {
    name: &'static str,
    seed: u64,
    number: u32,
    data: &'a [u8],
}

impl Drop for Told<'_> {
    fn drop(&mut self) {
        let Told { name, seed, number, data } = self;
        let file = std::env::temp_dir().join(format!("{name}-{seed}-{number}"));
        let kept = std::fs::write(&file, *data);
        let shown = String::from_utf8_lossy(data);
        println!("{name}: mutation {number} of seed {seed} broke a promise:\n{shown}\n");
        if kept.is_ok() {
            println!("again: cargo run -p sts-plus-fuzz -- {name} {}", file.display());
        }
    }
}

fn mutated(corpus: &[Vec<u8>], chance: &mut StdRng) -> Vec<u8> {
    let small: Vec<&Vec<u8>> = corpus.iter().filter(|data| data.len() <= MAX_BYTES).collect();
    let mut data = small[chance.random_range(0..small.len())].clone();
    for _ in 0..=chance.random_range(0..MAX_CHANGES) {
        let at = chance.random_range(0..=data.len());
        let end = (at + chance.random_range(0..32)).min(data.len());
        match chance.random_range(0..7) {
            0 if at < data.len() => data[at] = chance.random(),
            1 => drop(data.drain(at..end)),
            2 => {
                let piece = data[at..end].to_vec();
                data.splice(at..at, piece);
            }
            3 if !data.is_empty() => {
                let piece = data[at..end].to_vec();
                let to = chance.random_range(0..data.len());
                data.splice(to..to, piece);
            }
            4 => {
                let other = small[chance.random_range(0..small.len())];
                let from = chance.random_range(0..=other.len());
                let until = (from + chance.random_range(0..64)).min(other.len());
                data.splice(at..end, other[from..until].iter().copied());
            }
            _ => {
                let word = WORDS[chance.random_range(0..WORDS.len())];
                let end = if chance.random() { at } else { end };
                data.splice(at..end, word.bytes());
            }
        }
    }
    data.truncate(MAX_BYTES);
    data
}
