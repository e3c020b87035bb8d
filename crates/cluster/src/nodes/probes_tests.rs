use super::super::network::{Network, Reset, handler};
use super::*;

const S: fn(u64) -> Duration = Duration::from_secs;

fn probe(purpose: Purpose) -> Probe {
    let check = Check::Exec;
    Probe { purpose, check, delay: S(0), period: S(10), timeout: S(1), successes: 1, failures: 3 }
}

/// Probes of one run that began at zero.
fn probing(probes: &[Probe]) -> Probing {
    let mut probing = Probing::default();
    probing.see(&probes.into(), Some(0), false, S(0));
    probing
}

/// Asks what is due and answers it.
fn round(probing: &mut Probing, now: Moment, success: bool) -> usize {
    let asked = probing.ask(now);
    for (index, _) in &asked {
        probing.answered(*index, 0, success, now);
    }
    asked.len()
}

#[test]
fn without_probes_all_is_well() {
    let mut none = probing(&[]);
    assert_eq!((none.health(), none.wake(), none.ask(S(9)).len()), (Health::FINE, None, 0));
}

#[test]
fn readiness_begins_after_its_delay_and_follows_the_thresholds() {
    let mut probing =
        probing(&[Probe { delay: S(5), successes: 2, failures: 2, ..probe(Purpose::Readiness) }]);
    let ready = |probing: &Probing| probing.health().ready;
    assert_eq!((probing.wake(), round(&mut probing, S(4), true)), (Some(S(5)), 0));
    for (at, success, expected) in [
        (5, true, false),
        (15, true, true),
        (25, false, true),
        (35, false, false),
        (45, true, false),
        (55, false, false),
        (65, true, false),
        (75, true, true),
    ] {
        assert_eq!(probing.wake(), Some(S(at)));
        assert_eq!(round(&mut probing, S(at), success), 1, "at {at}");
        assert_eq!(ready(&probing), expected, "at {at}");
    }
    assert!(!probing.health().dead, "readiness kills nobody");
}

#[test]
fn nothing_else_is_asked_before_startup_has_succeeded() {
    let mut probing =
        probing(&[probe(Purpose::Liveness), probe(Purpose::Startup), probe(Purpose::Readiness)]);
    assert_eq!(probing.health(), Health { started: false, ready: false, dead: false });
    assert_eq!(round(&mut probing, S(0), false), 1);
    assert_eq!(round(&mut probing, S(10), true), 1);
    assert_eq!(probing.health(), Health { started: true, ready: false, dead: false });
    assert_eq!(round(&mut probing, S(10), true), 2, "the others are asked at once, startup never again");
    assert_eq!(probing.health(), Health::FINE);
    assert_eq!(round(&mut probing, S(20), false), 2);
}

#[test]
fn startup_and_liveness_kill_and_a_new_run_begins_anew() {
    for purpose in [Purpose::Startup, Purpose::Liveness] {
        let mut probing = probing(&[probe(purpose)]);
        for at in [0, 10, 20] {
            assert!(!probing.health().dead, "at {at}");
            round(&mut probing, S(at), false);
        }
        assert!(probing.health().dead);
        let probes = Arc::clone(&probing.probes);
        probing.see(&probes, Some(0), false, S(21));
        assert!(probing.health().dead, "the same run");
        probing.see(&probes, Some(1), false, S(22));
        assert!(!probing.health().dead);
        assert_eq!(probing.wake(), Some(S(22)));
        let asked = probing.ask(S(22));
        assert_eq!((asked.len(), probing.wake()), (1, None), "one question at a time");
        probing.answered(0, 0, false, S(23));
        assert_eq!(probing.wake(), None, "an answer of the run before does not count");
        probing.see(&probes, None, false, S(24));
        assert_eq!((probing.health(), probing.wake()), (Health::FINE, None));
    }
}

#[test]
fn a_slow_answer_does_not_shift_the_rhythm_unless_it_must() {
    let mut probing = probing(&[probe(Purpose::Readiness)]);
    probing.ask(S(0));
    probing.answered(0, 0, true, S(3));
    assert_eq!(probing.wake(), Some(S(10)));
    probing.ask(S(10));
    probing.answered(0, 0, true, S(25));
    assert_eq!(probing.wake(), Some(S(25)));
}

#[tokio::test(start_paused = true)]
async fn probes_are_really_asked() {
    let network = Network::new();
    let answer = |request: http::Request<Bytes>| async move {
        let status = match request.uri().path() {
            "/fine" => 200,
            "/moved" => 302,
            "/header" if request.headers().get("x-probe").is_some_and(|value| value == "yes") => 200,
            "/agent" if request.headers()["user-agent"].to_str().unwrap().starts_with("kube-probe/") => 200,
            "/hang" => std::future::pending().await,
            "/reset" => return Err(Reset),
            _ => 500,
        };
        Ok(http::Response::builder().status(status).body(Bytes::new()).unwrap())
    };
    let IpAddr::V4(ip) = network.add_host("pod", 80, handler(answer)) else { panic!() };
    let transport: Arc<dyn Transport> = Arc::new(network);
    let asked = async |check: Check, exec: &str| {
        let probe = Probe { check, ..probe(Purpose::Readiness) };
        ask(probe, ip, exec.parse().unwrap(), Arc::clone(&transport)).await
    };
    let http = |path: &str, headers: &[(&str, &str)]| Check::Http {
        host: None,
        port: 80,
        path: path.to_owned(),
        headers: headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
    };
    for (check, exec, expected) in [
        (http("/fine", &[]), "pass", true),
        (http("fine", &[]), "pass", true),
        (http("/fine?a=1&b=<2>", &[]), "pass", true),
        (http("/fine\u{e9}", &[]), "pass", false),
        (http("/moved", &[]), "pass", true),
        (http("/agent", &[]), "pass", true),
        (http("/header", &[]), "pass", false),
        (http("/header", &[("X-Probe", "yes")]), "pass", true),
        (http("/header", &[("no header", "")]), "pass", false),
        (http("/bad", &[]), "pass", false),
        (http("/hang", &[]), "pass", false),
        (http("/reset", &[]), "pass", false),
        (Check::Tcp { port: 80 }, "pass", true),
        (Check::Tcp { port: 81 }, "pass", false),
        (Check::Exec, "pass", true),
        (Check::Exec, "fail", false),
        (Check::Exec, "liveness=fail", true),
        (Check::Exec, "pass, readiness=fail", false),
        (Check::Impossible, "pass", false),
    ] {
        assert_eq!(asked(check.clone(), exec).await, expected, "{check:?} {exec}");
    }
}

#[test]
fn a_pod_that_was_ready_before_anybody_looked_stays_so_until_it_fails() {
    let probes: Arc<[Probe]> = [probe(Purpose::Startup), probe(Purpose::Readiness)].into();
    let mut probing = Probing::default();
    probing.see(&probes, Some(4), true, S(0));
    assert_eq!(probing.health(), Health::FINE);
    assert_eq!(probing.ask(S(0)).len(), 1, "startup is over");
    probing.answered(1, 4, false, S(0));
    assert_eq!(probing.health(), Health::FINE, "one failure of three");
}
