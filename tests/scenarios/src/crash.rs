//! Crash enumeration: the operator dies at every write of what it does, before it and after it, and starts again.

use std::sync::Mutex;

use futures::future::join_all;
use kube::Client;
use sts_plus_harness::faults::{Fault, Faults, Side, crash_at};

use crate::operator::Operator;

/// What the operator is killed in: it can be done again and again, each time from the start to the end.
pub(crate) trait Life {
    /// What one run needs to know.
    type Run;

    /// Sets a run up while no operator runs; `what` tells runs apart.
    async fn prepare(&mut self, what: &str) -> Self::Run;

    /// The operator's own client.
    fn client(&self, run: &Self::Run) -> Client;

    /// Starts an operator that sends its requests through this client.
    fn start(&self, run: &Self::Run, client: &Client) -> Operator;

    /// Plays the user, and returns when the end is reached and the operator writes nothing more; events come last.
    async fn live(&self, run: &Self::Run);

    /// Compares what was seen with what has to be seen, wherever the crash was.
    fn compare(&mut self, run: Self::Run, what: &str);
}

/// Both sides of so many writes.
pub(crate) fn points(writes: usize) -> impl Iterator<Item = (usize, Side)> {
    (0..writes).flat_map(|write| [(write, Side::Before), (write, Side::After)])
}

/// Runs once without a crash and counts the writes, then once for each side of each write, as many runs at once as there
/// are lanes. Returns the lanes.
pub(crate) async fn enumerate<L: Life>(mut lanes: Vec<L>, what: &str) -> Vec<L> {
    let writes = without_a_crash(&mut lanes[0]).await;
    println!("crash enumeration, {what}: {writes} writes, {} runs", 2 * writes);
    let points = Mutex::new(points(writes));
    let reached = join_all(lanes.iter_mut().map(|lane| {
        let points = &points;
        async move {
            let mut reached = 0;
            while let Some((write, side)) = { points.lock().unwrap().next() } {
                reached += usize::from(with_a_crash(lane, write, side).await);
            }
            reached
        }
    }))
    .await;
    // Two changes that are seen together are reported once, so a run may have a few writes less than another.
    let reached: usize = reached.into_iter().sum();
    println!("crash enumeration, {what}: {reached} of {} crashes happened before the end", 2 * writes);
    assert!(4 * reached >= 3 * 2 * writes, "only {reached} of {} crashes happened", 2 * writes);
    lanes
}

/// How many writes a run takes.
async fn without_a_crash<L: Life>(life: &mut L) -> usize {
    let what = "no-crash";
    let run = life.prepare(what).await;
    let counted = Faults::new(|_| Fault::None);
    let operator = life.start(&run, &counted.client(&life.client(&run)));
    life.live(&run).await;
    operator.crash().await;
    life.compare(run, what);
    counted.calls().iter().filter(|call| call.write.is_some()).count()
}

/// One run with a crash, after which another operator takes over; whether it came to the crash.
async fn with_a_crash<L: Life>(life: &mut L, write: usize, side: Side) -> bool {
    let what = format!("crash-{write}-{side:?}").to_lowercase();
    let run = life.prepare(&what).await;
    let faults = Faults::new(crash_at(write, side));
    let operator = life.start(&run, &faults.client(&life.client(&run)));
    let reached = {
        let living = life.live(&run);
        tokio::pin!(living);
        let reached = tokio::select! {
            () = faults.blocked() => true,
            () = &mut living => false,
        };
        operator.crash().await;
        if reached {
            let operator = life.start(&run, &life.client(&run));
            living.await;
            operator.crash().await;
        }
        reached
    };
    life.compare(run, &what);
    reached
}
