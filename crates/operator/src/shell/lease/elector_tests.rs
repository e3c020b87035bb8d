//! The loop against a server that knows one Lease, on a paused clock.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, advance};

use super::super::{Config, Epoch, Leadership, Timing, start};
use crate::shell::metrics::Metrics;

#[path = "test_server.rs"]
mod server;

use server::{Fault, Line, NAMESPACE, Server, pass, until};

const EVERYTHING: [&str; 4] = ["get", "create", "update", "watch"];

struct Replica {
    leadership: Leadership,
    stop: watch::Sender<bool>,
    task: JoinHandle<()>,
    line: Line,
    metrics: Metrics,
}

impl Replica {
    fn start(server: &Server, name: &str) -> Self {
        Self::start_on(server, name, |_| {})
    }

    fn start_on(server: &Server, name: &str, prepare: impl FnOnce(&Line)) -> Self {
        let (api, line) = server.connect();
        prepare(&line);
        let metrics = api.metrics().clone();
        let (stop, stopped) = watch::channel(false);
        let (leadership, work) = start(api, Config::new(NAMESPACE, name), stopped);
        Self { leadership, stop, task: tokio::spawn(work), line, metrics }
    }

    fn epoch(&self) -> Option<Epoch> {
        self.leadership.current()
    }

    fn leads(&self) -> bool {
        self.epoch().is_some()
    }

    async fn elected(&self) -> Epoch {
        until("it leads", || self.leads()).await;
        self.epoch().unwrap()
    }

    async fn leave(self) {
        self.stop.send_replace(true);
        self.leadership.resign();
        self.task.await.unwrap();
    }
}

/// A leader and a standby, both settled.
async fn pair(server: &Server) -> (Replica, Replica) {
    let leader = Replica::start(server, "a");
    leader.elected().await;
    let standby = Replica::start(server, "b");
    standby.leadership.clone().decided().await;
    until("it watches", || standby.line.requests().contains(&"watch")).await;
    (leader, standby)
}

/// Lets time pass and looks again and again that at most one leads.
async fn watch_over(replicas: &[&Replica], time: Duration) {
    let end = Instant::now() + time;
    while Instant::now() < end {
        assert!(replicas.iter().filter(|replica| replica.leads()).count() <= 1, "two lead");
        pass(Duration::from_millis(50)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn the_first_candidate_creates_the_lease_and_leads() {
    let server = Server::default();
    let mut replica = Replica::start(&server, "pod-a");
    replica.leadership.decided().await;
    assert_eq!(replica.epoch().map(Epoch::number), Some(1));
    assert_eq!(replica.metrics.leader.get(), 1);
    assert!(server.spec("holderIdentity").as_str().unwrap().starts_with("pod-a_"));
    assert_eq!(server.spec("leaseDurationSeconds"), json!(15));
    assert_eq!(server.spec("leaseTransitions"), json!(1));
    assert_eq!(replica.line.requests(), ["get", "create"]);
}

#[tokio::test(start_paused = true)]
async fn the_second_stands_by_and_nothing_is_polled() {
    let server = Server::default();
    let (leader, standby) = pair(&server).await;
    let settled = [&leader, &standby].map(|replica| replica.line.requests().len());
    watch_over(&[&leader, &standby], Duration::from_hours(1)).await;
    assert!(leader.leads());
    assert_eq!(standby.metrics.leader.get(), 0);
    // Twelve renewals a minute, and one watch in about ten.
    let renewals = leader.line.requests().split_off(settled[0]);
    assert!(renewals.len() <= 60 * 12 && renewals.iter().all(|verb| *verb == "update"), "{}", renewals.len());
    let watches = standby.line.requests().split_off(settled[1]);
    assert!(watches.len() <= 7 && watches.iter().all(|verb| *verb == "watch"), "{watches:?}");
}

#[tokio::test(start_paused = true)]
async fn a_released_lease_is_taken_without_waiting_for_its_end() {
    let server = Server::default();
    let (leader, standby) = pair(&server).await;
    let first = leader.epoch().unwrap();
    let released = Instant::now();
    leader.leave().await;
    let second = standby.elected().await;
    assert!(released.elapsed() < Timing::default().renew_every);
    assert!(second > first);
    assert_eq!(server.spec("leaseTransitions"), json!(second.number()));
}

#[tokio::test(start_paused = true)]
async fn the_lease_is_kept_until_the_work_in_flight_is_done() {
    let server = Server::default();
    let (leader, standby) = pair(&server).await;
    let mut observer = leader.leadership.clone();
    leader.stop.send_replace(true);
    assert!(!leader.leads(), "no new write after the stop");
    observer.changed().await;
    watch_over(&[&leader, &standby], Duration::from_secs(5)).await;
    assert!(!standby.leads(), "the work in flight was not waited for");
    assert_eq!(leader.metrics.leader.get(), 0);
    leader.leadership.resign();
    leader.task.await.unwrap();
    standby.elected().await;
}

#[tokio::test(start_paused = true)]
async fn a_released_lease_looks_so() {
    let server = Server::default();
    let replica = Replica::start(&server, "a");
    replica.elected().await;
    server.edit(|lease| lease["metadata"]["labels"] = json!({ "team": "x" }));
    pass(Timing::default().renew_every * 2).await;
    replica.leave().await;
    assert_eq!(server.spec("holderIdentity"), json!(""));
    assert_eq!(server.spec("leaseDurationSeconds"), json!(1));
    assert_eq!(server.lease().unwrap()["metadata"]["labels"], json!({ "team": "x" }));
}

#[tokio::test(start_paused = true)]
async fn work_that_never_ends_does_not_keep_the_process() {
    let server = Server::default();
    let replica = Replica::start(&server, "a");
    replica.elected().await;
    replica.stop.send_replace(true);
    replica.task.await.unwrap();
    assert!(
        server.spec("holderIdentity").as_str().unwrap().starts_with("a_"),
        "it must run out, not be released"
    );
}

#[tokio::test(start_paused = true)]
async fn a_standby_leaves_at_once_and_touches_nothing() {
    let server = Server::default();
    let (leader, standby) = pair(&server).await;
    let (stopped, before) = (Instant::now(), standby.line.requests());
    standby.stop.send_replace(true);
    standby.task.await.unwrap();
    assert_eq!(stopped.elapsed(), Duration::ZERO);
    assert_eq!(standby.line.requests(), before);
    assert!(leader.leads());
}

#[tokio::test(start_paused = true)]
async fn a_stop_is_heard_while_the_server_is_silent() {
    let server = Server::default();
    let replica = Replica::start_on(&server, "a", |line| line.fail(&EVERYTHING, Fault::Drop));
    until("it asks", || !replica.line.requests().is_empty()).await;
    let stopped = Instant::now();
    replica.leave().await;
    assert_eq!(stopped.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn a_killed_leader_is_followed_after_its_lease() {
    let server = Server::default();
    let (leader, standby) = pair(&server).await;
    leader.task.abort();
    let killed = Instant::now();
    watch_over(&[&leader, &standby], Timing::default().give_up).await;
    standby.elected().await;
    assert!(killed.elapsed() <= Timing::default().lease + Duration::from_secs(1), "{:?}", killed.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_leader_without_a_server_stops_by_itself_before_another_takes_over() {
    let server = Server::default();
    let (leader, standby) = pair(&server).await;
    let first = leader.epoch().unwrap();
    let mut observer = leader.leadership.clone();
    leader.line.fail(&EVERYTHING, Fault::Drop);
    let cut = Instant::now();
    let both = [&leader, &standby];
    tokio::join!(watch_over(&both, Duration::from_secs(30)), async {
        while observer.current().is_some() {
            observer.changed().await;
        }
        assert!(cut.elapsed() <= Timing::default().give_up, "{:?}", cut.elapsed());
    });
    assert_eq!(leader.metrics.leader.get(), 0);
    let second = standby.epoch().unwrap();
    leader.line.heal();
    watch_over(&[&leader, &standby], Duration::from_mins(1)).await;
    assert_eq!(standby.epoch(), Some(second), "the old leader must only follow");
    assert!(second > first && !leader.leadership.permits(first));
}

#[tokio::test(start_paused = true)]
async fn a_lonely_leader_gets_a_new_epoch_after_an_outage() {
    let server = Server::default();
    let replica = Replica::start(&server, "a");
    let first = replica.elected().await;
    replica.line.fail(&EVERYTHING, Fault::Drop);
    until("it stops", || !replica.leads()).await;
    replica.line.heal();
    let second = replica.elected().await;
    assert!(second > first);
    assert!(!replica.leadership.permits(first), "what was decided in the old term is void");
}

#[tokio::test(start_paused = true)]
async fn one_dead_connection_does_not_cost_the_lease() {
    let server = Server::default();
    let replica = Replica::start(&server, "a");
    let first = replica.elected().await;
    let mut observer = replica.leadership.clone();
    observer.changed().await;
    replica.line.fail_once(replica.line.requests().len(), Fault::Drop);
    let alone = [&replica];
    tokio::select! {
        () = watch_over(&alone, Duration::from_mins(1)) => {}
        () = observer.changed() => panic!("it lost the lease"),
    }
    assert_eq!(replica.epoch(), Some(first));
}

#[tokio::test(start_paused = true)]
async fn a_process_that_slept_past_its_term_knows_before_its_loop_runs() {
    let server = Server::default();
    let (api, _line) = server.connect();
    let (_stop, stopped) = watch::channel(false);
    let (leadership, work) = start(api, Config::new(NAMESPACE, "a"), stopped);
    let mut work = Box::pin(work);
    let mut observer = leadership.clone();
    tokio::select! {
        () = &mut work => panic!("it ended"),
        () = observer.decided() => {}
    }
    let first = leadership.current().unwrap();
    // Nothing polls the loop from here on, as in a stopped process.
    advance(Timing::default().give_up).await;
    assert_eq!(leadership.current(), None);
    assert!(!leadership.permits(first));
    // It runs again: the old term is over even though nobody else took the lease.
    tokio::select! {
        () = &mut work => panic!("it ended"),
        () = until("it leads again", || leadership.current().is_some()) => {}
    }
    assert!(leadership.current().unwrap() > first);
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_slept_while_another_took_over_follows() {
    let server = Server::default();
    let (api, _line) = server.connect();
    let (_stop, stopped) = watch::channel(false);
    let (leadership, work) = start(api, Config::new(NAMESPACE, "a"), stopped);
    let mut work = Box::pin(work);
    tokio::select! {
        () = &mut work => panic!("it ended"),
        () = until("it leads", || leadership.current().is_some()) => {}
    }
    let other = Replica::start(&server, "b");
    let epoch = other.elected().await;
    let awake = [&other];
    tokio::select! {
        () = &mut work => panic!("it ended"),
        () = watch_over(&awake, Duration::from_mins(1)) => {}
    }
    assert_eq!((leadership.current(), other.epoch()), (None, Some(epoch)));
}

#[tokio::test(start_paused = true)]
async fn an_edit_by_a_third_party_costs_neither_the_lease_nor_the_edit() {
    let server = Server::default();
    let (leader, standby) = pair(&server).await;
    let first = leader.epoch().unwrap();
    for round in 0..20 {
        server.edit(|lease| lease["metadata"]["annotations"] = json!({ "round": round.to_string() }));
        watch_over(&[&leader, &standby], Duration::from_secs(3)).await;
        assert_eq!(leader.epoch(), Some(first));
    }
    assert_eq!(server.lease().unwrap()["metadata"]["annotations"], json!({ "round": "19" }));
}

#[tokio::test(start_paused = true)]
async fn a_leader_yields_to_another_name_in_the_lease() {
    let server = Server::default();
    let leader = Replica::start(&server, "a");
    let first = leader.elected().await;
    server.edit(|lease| lease["spec"]["holderIdentity"] = json!("thief"));
    until("it stops", || !leader.leads()).await;
    assert_eq!(server.spec("holderIdentity"), json!("thief"));
    assert!(leader.elected().await > first, "the thief never renews");
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_died_silently_makes_no_second_leader() {
    let server = Server::default();
    let leader = Replica::start(&server, "a");
    leader.elected().await;
    let standby = Replica::start_on(&server, "b", |line| line.fail(&["watch"], Fault::Mute));
    watch_over(&[&leader, &standby], Duration::from_mins(5)).await;
    assert!(leader.leads());
    leader.leave().await;
    standby.elected().await;
}

#[tokio::test(start_paused = true)]
async fn a_history_that_is_gone_is_read_anew() {
    let server = Server::default();
    let (leader, standby) = pair(&server).await;
    server.edit(|lease| lease["metadata"]["labels"] = json!({}));
    server.compact();
    // Far from the time at which silence alone would make it look again.
    watch_over(&[&leader, &standby], Duration::from_secs(3)).await;
    let released = Instant::now();
    leader.leave().await;
    standby.elected().await;
    assert!(released.elapsed() < Timing::default().renew_every, "{:?}", released.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_deleted_lease_makes_no_second_leader_and_comes_back() {
    let server = Server::default();
    let (leader, standby) = pair(&server).await;
    server.delete();
    watch_over(&[&leader, &standby], Duration::from_mins(1)).await;
    assert!(server.lease().is_some());
    assert!(leader.leads() || standby.leads());
}

#[tokio::test(start_paused = true)]
async fn any_single_fault_at_any_request_heals_without_two_leaders() {
    let faults = [
        Fault::Drop,
        Fault::LoseAnswer,
        Fault::Mute,
        Fault::Status(200),
        Fault::Status(403),
        Fault::Status(404),
        Fault::Status(409),
        Fault::Status(410),
        Fault::Status(422),
        Fault::Status(429),
        Fault::Status(500),
    ];
    for fault in faults {
        for request in 0..6 {
            for leader_is_hit in [true, false] {
                let server = Server::default();
                let [first, second] = [("a", leader_is_hit), ("b", !leader_is_hit)].map(|(name, is_hit)| {
                    Replica::start_on(&server, name, |line| {
                        if is_hit {
                            line.fail_once(request, fault);
                        }
                    })
                });
                watch_over(&[&first, &second], Duration::from_mins(2)).await;
                let (leader, other) = if first.leads() { (first, second) } else { (second, first) };
                assert!(leader.leads(), "nobody leads after {fault:?} at request {request}");
                leader.leave().await;
                other.elected().await;
                other.leave().await;
            }
        }
    }
}

/// What keeps a candidate from taking part, and how many requests it makes meanwhile.
async fn in_trouble(server: &Server, prepare: impl FnOnce(&Line)) -> Replica {
    let replica = Replica::start_on(server, "a", prepare);
    watch_over(&[&replica], Duration::from_mins(10)).await;
    assert!(!replica.leads());
    let requests = replica.line.requests().len();
    // A pause is between half the cap and the cap, and an attempt is at most a read and a write.
    assert!((10 * 12..=10 * 12 * 4 + 20).contains(&requests), "{requests} requests in ten minutes");
    replica
}

#[tokio::test(start_paused = true)]
async fn a_missing_permission_is_waited_for_without_haste() {
    for verb in ["get", "create"] {
        let server = Server::default();
        let replica = in_trouble(&server, |line| line.fail(&[verb], Fault::Status(403))).await;
        replica.line.heal();
        replica.elected().await;
    }
    let server = Server::default();
    server.edit(|lease| lease["spec"] = json!({ "holderIdentity": "" }));
    let replica = in_trouble(&server, |line| line.fail(&["update"], Fault::Status(403))).await;
    replica.line.heal();
    replica.elected().await;
}

#[tokio::test(start_paused = true)]
async fn a_missing_namespace_is_waited_for_without_haste() {
    let server = Server::default();
    let replica = in_trouble(&server, |line| line.fail(&["create"], Fault::Status(404))).await;
    replica.line.heal();
    replica.elected().await;
}

#[tokio::test(start_paused = true)]
async fn a_malformed_lease_is_left_alone_until_somebody_mends_it() {
    let server = Server::default();
    server.edit(|lease| lease["spec"] = json!({ "holderIdentity": 7 }));
    let replica = in_trouble(&server, |_| {}).await;
    assert_eq!(server.spec("holderIdentity"), json!(7));
    server.delete();
    replica.elected().await;
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_becomes_malformed_stops_its_holder_in_time() {
    let server = Server::default();
    let (leader, standby) = pair(&server).await;
    let epoch = leader.epoch().unwrap();
    server.edit(|lease| lease["spec"]["leaseDurationSeconds"] = json!("long"));
    until("it stops", || !leader.leads()).await;
    watch_over(&[&leader, &standby], Duration::from_mins(1)).await;
    server.edit(|lease| lease["spec"]["leaseDurationSeconds"] = Value::Null);
    until("one leads", || leader.leads() || standby.leads()).await;
    assert!(!leader.leadership.permits(epoch));
}

#[tokio::test(start_paused = true)]
async fn without_the_permission_to_watch_it_still_takes_over() {
    let server = Server::default();
    let leader = Replica::start(&server, "a");
    leader.elected().await;
    let standby = Replica::start_on(&server, "b", |line| line.fail(&["watch"], Fault::Status(403)));
    watch_over(&[&leader, &standby], Duration::from_mins(10)).await;
    let requests = standby.line.requests().len();
    assert!(requests <= 10 * 12 * 4 + 20, "{requests} requests in ten minutes");
    let released = Instant::now();
    leader.leave().await;
    standby.elected().await;
    assert!(
        released.elapsed() < Timing::default().give_up,
        "it must look now and then: {:?}",
        released.elapsed()
    );
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_always_ends_at_once_is_not_opened_in_haste() {
    let server = Server::default();
    let leader = Replica::start(&server, "a");
    leader.elected().await;
    let standby = Replica::start_on(&server, "b", |line| line.fail(&["watch"], Fault::Status(200)));
    watch_over(&[&leader, &standby], Duration::from_mins(10)).await;
    assert!(leader.leads());
    let requests = standby.line.requests().len();
    assert!(requests <= 10 * 12 * 4 + 20, "{requests} requests in ten minutes");
}

#[tokio::test(start_paused = true)]
async fn a_second_process_of_the_same_pod_is_a_stranger() {
    let server = Server::default();
    let first = Replica::start(&server, "pod-a");
    let epoch = first.elected().await;
    first.task.abort();
    let second = Replica::start(&server, "pod-a");
    watch_over(&[&first, &second], Timing::default().give_up).await;
    assert!(!second.leads(), "its predecessor's writes may still be in flight");
    assert!(second.elected().await > epoch);
}
