//! How long each stage took: told, never judged.

use std::{
    sync::{Mutex, PoisonError},
    time::Instant,
};

/// Told at the end, since the lines of a running test are half written.
static TIMES: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Notes the time of each stage when it ends.
pub(crate) struct Stages {
    what: &'static str,
    began: Instant,
}

impl Stages {
    pub(crate) fn begin(what: &'static str) -> Self {
        Self { what, began: Instant::now() }
    }

    /// The present stage has ended, with this; the next begins.
    pub(crate) fn end(&mut self, stage: &str) {
        let line = format!("  {:5.1} s  {}: {stage}", self.began.elapsed().as_secs_f64(), self.what);
        TIMES.lock().unwrap_or_else(PoisonError::into_inner).push(line);
        self.began = Instant::now();
    }
}

/// Prints what was noted.
pub(crate) fn tell() {
    let times = TIMES.lock().unwrap_or_else(PoisonError::into_inner);
    if !times.is_empty() {
        println!("Stages:\n{}\n", times.join("\n"));
    }
}
