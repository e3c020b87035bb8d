//! What has happened, line by line, and a hash of it: two runs of one seed have the same.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::time::Instant;

/// Lines that a run may write: some hundred times what a usual one does, so that one that spins ends.
const MAX_LINES: usize = 2_000_000;

/// A trace; clones write the same one.
#[derive(Clone, Debug)]
pub struct Trace {
    started: Instant,
    written: Arc<Mutex<Written>>,
}

#[derive(Debug)]
struct Written {
    /// The lines, where somebody wants to read them.
    lines: Option<Vec<String>>,
    count: usize,
    hash: u64,
}

impl Trace {
    /// An empty trace that begins now; `keep` keeps its lines.
    pub fn new(keep: bool) -> Self {
        // FNV-1a, whose values are the same wherever it is computed.
        let written = Written { lines: keep.then(Vec::new), count: 0, hash: 0xcbf2_9ce4_8422_2325 };
        Self { started: Instant::now(), written: Arc::new(Mutex::new(written)) }
    }

    /// Something has happened.
    pub fn line(&self, words: &str) {
        let millis = self.started.elapsed().as_millis();
        let line = format!("{:>6}.{:03}  {words}", millis / 1000, millis % 1000);
        let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        written.count += 1;
        written.hash = line
            .bytes()
            .chain(*b"\n")
            .fold(written.hash, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
        if let Some(lines) = &mut written.lines {
            lines.push(line);
        }
    }

    /// Whether there are more lines than any run should have.
    pub fn is_overlong(&self) -> bool {
        self.written().count > MAX_LINES
    }

    /// The hash of all lines so far.
    pub fn hash(&self) -> u64 {
        self.written().hash
    }

    /// The lines so far, where they are kept.
    pub fn lines(&self) -> Vec<String> {
        self.written().lines.clone().unwrap_or_default()
    }

    fn written(&self) -> std::sync::MutexGuard<'_, Written> {
        self.written.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
