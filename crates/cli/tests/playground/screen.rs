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
    screen.matches(" new ready").count()
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
        screen.matches(" Paused").count() >= 3 && screen.matches(" old ready").count() >= 9
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
