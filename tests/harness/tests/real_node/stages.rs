//! How long each stage took: told, never judged.

use std::time::Instant;

/// Prints the time of each stage when it ends.
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
        println!("{}: {:5.1} s  {stage}", self.what, self.began.elapsed().as_secs_f64());
        self.began = Instant::now();
    }
}
