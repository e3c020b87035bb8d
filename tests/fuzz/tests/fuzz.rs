//! Every file of the corpus of every target, and mutations of them.
//!
//! `FUZZ_SEED` chooses other mutations, `FUZZ_MUTATIONS` how many.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test")]

use std::sync::mpsc;
use std::time::Duration;

use libtest_mimic::{Arguments, Failed, Trial};
use sts_plus_fuzz::{TARGETS, mutation};

/// Fewest files that a corpus has: with less there is little to mutate.
const FEWEST_FILES: usize = 15;
/// Mutations of each corpus: a second or two without optimisation.
const MUTATIONS: u32 = 100;
/// Only bounds hanging; an input takes some milliseconds, the largest a second.
const PATIENCE: Duration = Duration::from_mins(2);

fn main() {
    let arguments = Arguments::from_args();
    let mut trials = Vec::new();
    for target in TARGETS {
        let corpus = target.corpus();
        let (name, files) = (target.name, corpus.len());
        trials.push(Trial::test(format!("{name}_has_a_corpus"), move || {
            if files < FEWEST_FILES {
                return Err(format!("{files} files, at least {FEWEST_FILES}").into());
            }
            Ok(())
        }));
        for (file, data) in corpus {
            trials.push(Trial::test(format!("{name}::{file}"), move || {
                in_time(move || target.on_a_small_stack(move |run| run(&data)))
            }));
        }
        trials.push(Trial::test(format!("{name}_mutations"), move || {
            let number = |name: &str| std::env::var(name).ok().map(|text| text.parse().unwrap());
            let seed = number("FUZZ_SEED").unwrap_or(mutation::SEED);
            let count = number("FUZZ_MUTATIONS").map_or(MUTATIONS, |count| u32::try_from(count).unwrap());
            in_time(move || mutation::run(target, seed, count))
        }));
    }
    libtest_mimic::run(&arguments, trials).exit();
}

/// Does something that must end.
fn in_time(work: impl FnOnce() + Send + 'static) -> Result<(), Failed> {
    let (done, ended) = mpsc::channel();
    let worker = std::thread::spawn(move || {
        work();
        done.send(()).unwrap();
    });
    match ended.recv_timeout(PATIENCE) {
        Ok(()) => Ok(()),
        Err(mpsc::RecvTimeoutError::Timeout) => Err(format!("not done after {PATIENCE:?}").into()),
        Err(mpsc::RecvTimeoutError::Disconnected) => {
            let panic = worker.join().unwrap_err();
            let told = panic.downcast_ref::<String>().cloned();
            Err(told
                .or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string))
                .unwrap_or_default()
                .into())
        }
    }
}
