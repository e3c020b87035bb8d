use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::Buffer;

use super::super::demo::Demo;
use super::super::samples::{Health, Sample};
use super::*;

/// Set to write the screens of this run into the folder that they are compared with.
const REWRITE: &str = "STS_PLUS_REWRITE_SCREENS";

fn drawn(layout: &Layout, (width, height): (u16, u16), colour: bool) -> Buffer {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| draw(frame, layout, Look { colour })).unwrap();
    terminal.backend().buffer().clone()
}

fn text(buffer: &Buffer) -> String {
    let width = usize::from(buffer.area.width).max(1);
    let rows = buffer
        .content
        .chunks(width)
        .map(|row| row.iter().map(ratatui::buffer::Cell::symbol).collect::<String>());
    rows.map(|row| row.trim_end().to_owned()).collect::<Vec<_>>().join("\n") + "\n"
}

#[track_caller]
fn compare(name: &str, layout: &Layout, size: (u16, u16)) {
    let screen = text(&drawn(layout, size, false));
    let file =
        format!("{}/src/playground/snapshots/{name}.txt", std::env::var("CARGO_MANIFEST_DIR").unwrap());
    if std::env::var_os(REWRITE).is_some() {
        std::fs::write(&file, &screen).unwrap();
    }
    let expected = std::fs::read_to_string(&file).unwrap_or_default();
    assert!(
        screen == expected,
        "{file} is\n{expected}\nand the screen is\n{screen}\nset {REWRITE}=1 to keep it"
    );
}

fn layout_of(sample: &Sample) -> Layout {
    Layout {
        address: "https://127.0.0.1:7443".to_owned(),
        tries: [
            "export KUBECONFIG=/tmp/sts-plus-a1b2c3/kubeconfig",
            "kubectl get pods -o wide",
            "kubectl b",
            "kubectl c",
        ]
        .map(str::to_owned)
        .to_vec(),
        ..Layout::new(&sample.0)
    }
}

#[test]
fn a_rollout_in_a_small_terminal() {
    let mut layout = layout_of(&Sample::rolling());
    layout.last = Some("$ kubectl set env statefulset --all VERSION=2".to_owned());
    compare("rolling-80x24", &layout, (80, 24));
}

#[test]
fn a_rollout_in_a_large_terminal() {
    compare("rolling-120x40", &layout_of(&Sample::rolling()), (120, 40));
}

#[test]
fn a_broken_version() {
    let mut sample = Sample::rolling();
    sample.set(
        "store-zone-a",
        "zone-a",
        "PodBroken",
        "Blocked: a pod of revision store-zone-a-7966aa is broken (store-zone-a-1 is in CrashLoopBackOff).",
    );
    sample.pod("store-zone-a-1", "zone-a", "7966aa", Health::Crashing);
    sample.event(
        "StatefulSet",
        "store-zone-a",
        "PodBroken",
        "Blocked: a pod of revision store-zone-a-7966aa is broken.",
    );
    let mut layout = layout_of(&sample);
    let body = r#"{"spec":{"template":{"metadata":{"annotations":{"hollow.sts.plus/fault":"crash-loop"}}}}}"#;
    layout.last =
        Some(format!("$ kubectl patch statefulset store-zone-a store-zone-b --type merge -p '{body}'"));
    compare("broken-80x24", &layout, (80, 24));
}

/// `web` starts its second version in the first zone, and `db` has lost its active pod to the next one.
fn extended() -> Layout {
    let mut sample = Sample::extended();
    sample.child("web-z0-v2", "zone-a", 2);
    sample.version("web", 1, 2, "VersionStarting");
    sample.pod("web-z0-v2-1", "zone-a", "7966aa", Health::Starting);
    sample.active("db", Some("db-z0-1"));
    sample.event("ExtendedStatefulSet", "db", "ActivePod", "Pod db-z0-1 is the active one.");
    let last = Some("$ kubectl annotate pod db-z0-0 'hollow.sts.plus/http=/leader 503'".to_owned());
    Layout { demo: Demo::Extended, last, ..layout_of(&sample) }
}

#[test]
fn a_version_that_starts_beside_the_one_before_and_an_active_pod() {
    compare("extended-80x24", &extended(), (80, 24));
    compare("extended-120x40", &extended(), (120, 40));
}

#[test]
fn a_pod_that_flushes_before_it_is_removed() {
    let mut sample = Sample::scaling();
    sample.drains("ingester-2");
    sample.event("ScalingPolicy", "ingester", "Draining", "ingester-2 drains: flushing 40 chunks.");
    let last = Some("$ kubectl scale scp ingester --replicas=2".to_owned());
    let layout = Layout { demo: Demo::Scaling, last, ..layout_of(&sample) };
    compare("scaling-80x24", &layout, (80, 24));
}

#[test]
fn nothing_is_there_yet() {
    compare("empty-80x24", &Layout::default(), (80, 24));
}

#[test]
fn no_size_is_too_small_or_too_large() {
    let mut layout = layout_of(&Sample::rolling());
    layout.last = Some("$ kubectl get pods".to_owned());
    for width in [0, 1, 2, 3, 10, 79, 500] {
        for height in [0, 1, 2, 3, 10, 23, 200] {
            let buffer = drawn(&layout, (width, height), true);
            assert_eq!(buffer.content.len(), usize::from(width) * usize::from(height));
        }
    }
    compare("tiny-20x6", &layout, (20, 6));
}

#[test]
fn without_colour_there_is_none_and_nothing_is_lost() {
    let mut sample = Sample::rolling();
    sample.pod("store-zone-a-1", "zone-a", "7966aa", Health::Crashing);
    let layout = layout_of(&sample);
    let (plain, coloured) = (drawn(&layout, (80, 24), false), drawn(&layout, (80, 24), true));
    assert!(plain.content.iter().all(|cell| cell.fg == Color::Reset && cell.bg == Color::Reset));
    assert!(coloured.content.iter().any(|cell| cell.fg == Color::Red));
    assert_eq!(text(&plain), text(&coloured));
}

#[test]
fn sentences_are_wrapped_at_words_and_cut_at_the_last_line() {
    assert_eq!(wrap("one two three", 7, 3), ["one two", "three"]);
    assert_eq!(wrap("one two three four", 7, 2), ["one two", "three …"]);
    assert_eq!(wrap("a longest b", 4, 3), ["a", "long", "est…"]);
    assert_eq!(wrap("a longest", 4, 3), ["a", "long", "est"]);
    assert_eq!(wrap("", 4, 3), [""]);
    assert!(wrap("x", 0, 2).len() <= 2);
}
