//! In a pseudo-terminal, from the first screen to the last.

use std::path::PathBuf;
use std::time::Duration;

use crate::playground;
use crate::pty::Terminal;

/// A size in which all there is has room.
const LARGE: (u16, u16) = (120, 40);

/// Pods of the two workloads.
const PODS: usize = 12;

/// How often a pod is killed at most. Here it is back in tenths of a second, so that a busy machine may draw no screen meanwhile.
const KILLS: usize = 10;

/// How long to look for one that was killed, many times what it takes to be back.
const KILL_SHOWN: Duration = Duration::from_secs(10);

fn start() -> Terminal {
    Terminal::start(&mut playground(&["--fast", "--port", "0"]), LARGE)
}

/// How many pods are of the newest version and ready.
fn done(screen: &str) -> usize {
    screen.matches('●').count() - screen.matches(" ready outdated").count()
}

fn is_done(screen: &str) -> bool {
    done(screen) == PODS
}

/// The kubeconfig that the screen tells of.
fn kubeconfig(screen: &str) -> PathBuf {
    let (_, rest) = screen.split_once("export KUBECONFIG=").expect("what to try");
    rest.split_whitespace().next().expect("a path").into()
}

#[test]
fn every_key_shows_its_command_and_has_its_effect() {
    let mut terminal = start();
    let settings = terminal.settings();
    let first = terminal.wait("what to try", |screen| screen.contains("export KUBECONFIG="));
    let kubeconfig = kubeconfig(&first);
    terminal.wait("the first rollout", |screen| screen.contains("VERSION=2"));
    assert!(kubeconfig.exists(), "{}", kubeconfig.display());
    assert!(terminal.look(|seen| seen.parser.screen().alternate_screen()));
    terminal.wait("the end of the first rollout", is_done);

    let mark = terminal.mark();
    terminal.press("n");
    let command = "$ kubectl set env statefulset --all VERSION=3";
    terminal.wait_since(mark, "a rollout", |screen| screen.contains(command) && done(screen) < PODS);
    terminal.wait("its end", is_done);

    terminal.press("b");
    terminal.wait("a version that does not come up", |screen| {
        screen.contains("kubectl patch statefulset store-zone-a store-zone-b store-zone-c")
            && screen.contains("CrashLoopBackOff")
            && screen.contains("PodBroken")
    });
    terminal.press("h");
    terminal.wait("a version that does", |screen| {
        screen.contains(r#""hollow.sts.plus/fault":null"#) && is_done(screen)
    });

    terminal.press("p");
    terminal.wait("a paused group", |screen| screen.contains("grafana.com/rollout-paused=true"));
    terminal.press("n");
    terminal.wait("zones that stay as they are", |screen| {
        screen.matches(" Paused").count() >= 3 && screen.matches(" ready outdated").count() >= 9
    });
    terminal.press("p");
    terminal.wait("the rollout after all", |screen| {
        screen.contains("grafana.com/rollout-paused- ") && is_done(screen)
            || screen.contains("grafana.com/rollout-paused-\n") && is_done(screen)
    });

    terminal.press("m");
    terminal.wait("a bad metric", |screen| screen.contains("errors_per_second 9"));
    terminal.press("n");
    terminal.wait("a gate that stays shut", |screen| done(screen) == 9 && screen.contains("has failed"));
    terminal.press("m");
    terminal.wait("the gate passed", |screen| screen.contains("errors_per_second 0") && is_done(screen));

    let killed = |screen: &str| screen.contains("$ kubectl delete pod store-zone-") && done(screen) < PODS;
    let shown = (0..KILLS).any(|_| {
        let mark = terminal.mark();
        terminal.press("k");
        terminal.find_since(mark, KILL_SHOWN, killed).is_ok()
    });
    assert!(shown, "no pod that was killed was seen");
    terminal.wait("its successor", is_done);

    let mark = terminal.mark();
    terminal.press("x");
    for (columns, rows) in [(40, 10), (1, 1), (0, 0), (80, 24)] {
        terminal.resize(columns, rows);
    }
    terminal.wait_since(mark, "a small screen", |screen| {
        screen.contains("sts-plus playground") && screen.lines().all(|line| line.chars().count() <= 80)
    });

    terminal.press("q");
    assert!(terminal.end().success());
    assert!(
        !terminal.look(|seen| seen.parser.screen().alternate_screen() || seen.parser.screen().hide_cursor())
    );
    assert_eq!(format!("{:?}", terminal.settings()), format!("{settings:?}"));
    assert!(!kubeconfig.parent().expect("a folder").exists(), "{} was left behind", kubeconfig.display());
}

/// Pods of the two ExtendedStatefulSets.
const EXTENDED_PODS: usize = 8;

#[test]
fn every_key_of_the_demo_of_extended_stateful_sets_shows_its_command_and_has_its_effect() {
    let arguments = ["--fast", "--port", "0", "--demo", "extended"];
    let mut terminal = Terminal::start(&mut playground(&arguments), LARGE);
    let is_done = |screen: &str| done(screen) == EXTENDED_PODS && screen.matches(", Ready").count() == 2;
    terminal.wait("the end of the opening", |screen| {
        screen.contains(" hollow.sts.plus/http-") && screen.contains("web: version 2") && is_done(screen)
    });

    terminal.press("n");
    terminal.wait("both versions", |screen| {
        screen.contains("playground.example/web:3")
            && screen.contains("web-z0-v2")
            && screen.contains("web-z0-v3")
    });
    terminal.wait("its promotion", |screen| screen.contains("web: version 3") && is_done(screen));

    terminal.press("b");
    terminal.wait("a version that does not start beside one that serves", |screen| {
        screen.contains("web: version 3, update to version 4, VersionStarting")
            && screen.contains("✗")
            && screen.contains("CrashLoopBackOff")
    });
    terminal.press("h");
    terminal.wait("the version before", |screen| {
        screen.contains(r#""hollow.sts.plus/fault":null"#)
            && screen.contains("web: version 3, ")
            && is_done(screen)
    });

    terminal.press("p");
    terminal.wait("versions that are paused", |screen| screen.contains(r#"{"spec":{"paused":true}}"#));
    terminal.press("n");
    terminal.wait("a version that is not made", |screen| screen.contains(", Paused"));
    terminal.press("p");
    terminal.wait("the version after all", |screen| !screen.contains("web: version 3") && is_done(screen));

    let mark = terminal.mark();
    terminal.press("c");
    terminal.wait_since(mark, "a rollout of one zone after the other", |screen| {
        screen.contains("log_level info") && screen.contains("WaitingForTurn")
    });
    terminal.wait("its end", |screen| screen.contains("db: version 3, ") && is_done(screen));

    // Where the active pod is on the screen: the pods of db are above all that may grow.
    let active = |screen: &str| {
        let mut lines = screen.lines().enumerate();
        lines.find_map(|(row, line)| Some((row, line.find("ready active")?)))
    };
    let before = active(&terminal.wait("an active pod", |screen| screen.contains("ready active")));
    terminal.press("f");
    terminal.wait("another active pod", |screen| {
        screen.contains("=/leader 503'") && active(screen).is_some_and(|next| Some(next) != before)
    });
    terminal.press("f");
    terminal.wait("the first one healed", |screen| screen.contains(" hollow.sts.plus/http-"));
    terminal.press("k");
    terminal.wait("the end", |screen| screen.contains("$ kubectl delete pod db-z") && is_done(screen));
    terminal.press("q");
    assert!(terminal.end().success());
}

#[test]
fn every_key_of_the_demo_of_scaling_policies_shows_its_command_and_has_its_effect() {
    let arguments = ["--fast", "--port", "0", "--demo", "scaling"];
    let mut terminal = Terminal::start(&mut playground(&arguments), LARGE);
    let all = "3 replicas wanted, 3 present, 3 Ready, Ready";
    terminal.wait("the end of the opening", |screen| {
        screen.contains("--replicas=3") && screen.contains(all) && screen.contains("storage available")
    });

    terminal.press("f");
    terminal.wait("no storage", |screen| screen.contains("storage unavailable"));
    terminal.press("d");
    terminal.wait("a hook that fails", |screen| {
        screen.contains("2 replicas wanted, 3 present, 2 Ready, HookFailing")
            && screen.contains("answered 503: the object storage is unavailable")
            && screen.contains(" requested")
    });
    terminal.press("f");
    terminal.wait("a pod that flushes", |screen| {
        screen.contains("ingester-2 drains: /state is \"flushing, ")
            && screen.contains(" of 40 chunks are left")
            && screen.contains("◐ 2 ")
            && screen.contains(" draining")
    });
    terminal.press("u");
    terminal.wait("the pod that stays", |screen| screen.contains(all));

    terminal.press("d");
    terminal.wait("it leaves again", |screen| screen.contains(" draining"));
    terminal.press("k");
    terminal.wait("its end", |screen| {
        screen.contains("$ kubectl delete pod ingester-2 --wait=false")
            && screen.contains("2 replicas wanted, 2 present, 2 Ready, Ready")
    });

    terminal.press("p");
    terminal.wait("a policy that is paused", |screen| screen.contains(r#"{"spec":{"paused":true}}"#));
    terminal.press("u");
    terminal.wait("a pod that is not made", |screen| {
        screen.contains("--replicas=3") && screen.contains("2 present, 2 Ready, Paused")
    });
    terminal.press("p");
    terminal.wait("the pod after all", |screen| screen.contains(all));
    terminal.press("q");
    assert!(terminal.end().success());
}

#[test]
fn whatever_ends_it_the_terminal_is_as_before() {
    for end in ["ctrl-c", "TERM", "HUP", "INT"] {
        let mut terminal = start();
        let settings = format!("{:?}", terminal.settings());
        let whole = |screen: &str| screen.contains("GROUP store") && screen.contains("q quit");
        let screen = terminal.wait("a workload", whole);
        assert_ne!(format!("{:?}", terminal.settings()), settings, "raw while it runs");
        match end {
            "ctrl-c" => terminal.press("\u{3}"),
            signal => terminal.signal(signal),
        }
        assert!(terminal.end().success(), "{end}");
        assert_eq!(format!("{:?}", terminal.settings()), settings, "{end}");
        assert!(!terminal.look(|seen| seen.parser.screen().alternate_screen()), "{end}");
        assert!(!kubeconfig(&screen).exists(), "{end}");
    }
}

#[test]
fn an_empty_playground_says_what_can_be_done() {
    let mut terminal = Terminal::start(&mut playground(&["--no-demo", "--port", "0"]), (80, 24));
    terminal.wait("zones", |screen| screen.contains("zone-c") && screen.contains("kubectl api-resources"));
    terminal.press("n");
    terminal.wait("why nothing happens", |screen| screen.contains("no StatefulSet of this namespace"));
    terminal.press("q");
    assert!(terminal.end().success());
}
