//! Gives a target one input again, or more mutations than its test has time for.
//!
//!     sts-plus-fuzz TARGET FILE...
//!     sts-plus-fuzz TARGET --mutations COUNT [SEED]

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a tool for the command line")]

use std::process::ExitCode;

use sts_plus_fuzz::{TARGETS, Target, mutation};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let Some((target, rest)) =
        arguments.split_first().and_then(|(name, rest)| Some((Target::named(name)?, rest)))
    else {
        let names: Vec<&str> = TARGETS.iter().map(|target| target.name).collect();
        eprintln!(
            "usage: sts-plus-fuzz TARGET FILE... | TARGET --mutations COUNT [SEED]\ntargets: {}",
            names.join(" ")
        );
        return ExitCode::from(2);
    };
    if let ["--mutations", count, seed @ ..] = rest {
        let (count, seed) = (count.parse(), seed.first().map_or(Ok(mutation::SEED), |seed| seed.parse()));
        let (Ok(count), Ok(seed)) = (count, seed) else {
            eprintln!("COUNT and SEED are numbers");
            return ExitCode::from(2);
        };
        mutation::run(target, seed, count);
        return ExitCode::SUCCESS;
    }
    for file in rest {
        let data = match std::fs::read(file) {
            Ok(data) => data,
            Err(error) => {
                eprintln!("{file}: {error}");
                return ExitCode::FAILURE;
            }
        };
        target.on_a_small_stack(move |run| run(&data));
        println!("{file}: fine");
    }
    ExitCode::SUCCESS
}
