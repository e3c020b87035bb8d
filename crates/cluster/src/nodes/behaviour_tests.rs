use std::collections::BTreeSet;

use super::*;

const MS: fn(u64) -> Duration = Duration::from_millis;

fn read(annotations: &[(&str, &str)]) -> Behaviour {
    Behaviour::read(annotations.iter().copied(), Some(2))
}

#[test]
fn delays_are_durations_or_ranges() {
    for (text, expected) in [
        ("50ms", Ok(Delay::fixed(MS(50)))),
        ("2s", Ok(Delay::fixed(MS(2_000)))),
        ("0s", Ok(Delay::NONE)),
        ("1m30s", Ok(Delay::fixed(MS(90_000)))),
        ("2s..5s", Ok(Delay::between(MS(5_000), MS(2_000)))),
        ("3s..3s", Ok(Delay::fixed(MS(3_000)))),
        ("24h", Ok(Delay::fixed(MAX_DELAY))),
        ("5s..2s", Err(DelayError::Backwards("5s..2s".into()))),
        ("-1s", Err(DelayError::OutOfBounds("-1s".into()))),
        ("25h", Err(DelayError::OutOfBounds("25h".into()))),
        ("9999999999999h", Err(DelayError::OutOfBounds("9999999999999h".into()))),
        ("", Err(DelayError::NotADuration(String::new()))),
        ("50", Err(DelayError::NotADuration("50".into()))),
        ("soon", Err(DelayError::NotADuration("soon".into()))),
        ("..", Err(DelayError::NotADuration(String::new()))),
        ("1s..", Err(DelayError::NotADuration(String::new()))),
        ("1s..2s..3s", Err(DelayError::NotADuration("2s..3s".into()))),
    ] {
        assert_eq!(text.parse::<Delay>(), expected, "{text:?}");
    }
}

#[test]
fn a_draw_repeats_and_stays_in_its_range_and_uses_all_of_it() {
    let delay = Delay::between(MS(2), MS(5));
    let drawn: Vec<Duration> = (0..1_000).map(|pod| delay.draw(7, &format!("uid-{pod}"))).collect();
    let again: Vec<Duration> = (0..1_000).map(|pod| delay.draw(7, &format!("uid-{pod}"))).collect();
    assert_eq!(drawn, again);
    assert!(drawn.iter().all(|draw| (MS(2)..=MS(5)).contains(draw)));
    for tenth in 0..10 {
        let bounds = MS(2) + MS(3) * tenth / 10..MS(2) + MS(3) * (tenth + 1) / 10;
        let share = drawn.iter().filter(|&&draw| bounds.contains(&draw)).count();
        assert!((60..=140).contains(&share), "{share} of 1,000 draws fell into {bounds:?}");
    }
    let other: Vec<Duration> = (0..1_000).map(|pod| delay.draw(8, &format!("uid-{pod}"))).collect();
    assert!(drawn.iter().zip(&other).filter(|(one, other)| one == other).count() < 10, "the seed matters");
    assert_eq!(Delay::fixed(MS(4)).draw(7, "uid"), MS(4));
}

#[test]
fn faults_are_read_and_kept_to_their_ordinals() {
    for (fault, expected) in [
        ("never-ready", Some(Fault::NeverReady)),
        (" crash-loop ", Some(Fault::CrashLoop)),
        ("image-pull", Some(Fault::ImagePull)),
        ("stuck-terminating", Some(Fault::StuckTerminating)),
        ("init-crash-loop", Some(Fault::InitCrashLoop)),
        ("exit-after=3s", Some(Fault::EndAfter(Delay::fixed(MS(3_000)), 0))),
        ("fail-after=0s", Some(Fault::EndAfter(Delay::NONE, 1))),
        ("unready-after=3s", Some(Fault::UnreadyAfter(Delay::fixed(MS(3_000))))),
        ("unready-after=1s..2s", Some(Fault::UnreadyAfter(Delay::between(MS(1_000), MS(2_000))))),
        ("", None),
    ] {
        assert_eq!(
            read(&[(FAULT, fault)]),
            Behaviour { fault: expected, ..Behaviour::default() },
            "{fault:?}"
        );
    }
    for (ordinals, pod, hit) in
        [("0,2", Some(2), true), ("0, 1", Some(2), false), ("2", Some(2), true), ("2", None, false)]
    {
        // The order in which the two annotations come must not matter.
        for annotations in [
            [(FAULT_ORDINALS, ordinals), (FAULT, "never-ready")],
            [(FAULT, "never-ready"), (FAULT_ORDINALS, ordinals)],
        ] {
            let behaviour = Behaviour::read(annotations, pod);
            assert_eq!(behaviour.fault.is_some(), hit, "{ordinals:?} on ordinal {pod:?}");
            assert_eq!(behaviour.complaint, None);
        }
    }
}

#[test]
fn what_cannot_be_read_is_named_and_means_the_default() {
    let too_many = vec!["1"; MAX_FAULT_ORDINALS + 1].join(",");
    let annotations = [
        (START_DELAY, "soon"),
        (READY_DELAY, "5s..2s"),
        (STOP_DELAY, "-1s"),
        (INIT_RUNS, "0"),
        (FAULT, "never-redy"),
        (FAULT_ORDINALS, too_many.as_str()),
        ("hollow.sts.plus/start-dealy", "1s"),
        ("example.com/other", "untouched"),
    ];
    let behaviour = read(&annotations);
    let complaint = behaviour.complaint.clone().unwrap();
    assert_eq!(Behaviour { complaint: None, ..behaviour }, Behaviour::default());
    let named: BTreeSet<&str> = complaint.split("; ").filter_map(|part| part.split(' ').next()).collect();
    let expected: BTreeSet<&str> = annotations[..7].iter().map(|(key, _)| *key).collect();
    assert_eq!(named, expected, "{complaint}");

    for (text, runs) in [("1", Some(1)), ("20", Some(20)), ("21", None), ("-1", None), ("often", None)] {
        let behaviour = read(&[(INIT_RUNS, text)]);
        assert_eq!((behaviour.init_runs, behaviour.complaint.is_none()), (runs, runs.is_some()), "{text}");
    }
    let misspelt = read(&[(FAULT, "unready-after=later")]).complaint.unwrap();
    assert!(misspelt.contains("`later` is not a duration"), "{misspelt}");
}

#[test]
fn an_unreadable_list_of_ordinals_restricts_nothing() {
    for ordinals in ["", "a", "0,,2", "-1", "1.5"] {
        let behaviour = read(&[(FAULT, "crash-loop"), (FAULT_ORDINALS, ordinals)]);
        assert_eq!(behaviour.fault, Some(Fault::CrashLoop), "{ordinals:?}");
        assert!(behaviour.complaint.unwrap().starts_with(FAULT_ORDINALS), "{ordinals:?}");
    }
}

#[test]
fn exec_probes_end_as_they_are_told() {
    use Purpose::{Liveness, Readiness, Startup};
    for (text, expected) in [
        ("pass", [true, true, true]),
        ("fail", [false, false, false]),
        ("readiness=fail", [true, false, true]),
        ("fail, startup = pass", [true, false, false]),
        ("startup=fail,liveness=fail,readiness=pass", [false, true, false]),
    ] {
        let exec = read(&[(EXEC, text)]).exec.unwrap();
        assert_eq!([Startup, Readiness, Liveness].map(|purpose| exec.passes(purpose)), expected, "{text}");
    }
    for text in ["", "yes", "readiness", "other=pass", "readiness=yes"] {
        let behaviour = read(&[(EXEC, text)]);
        assert_eq!(behaviour.exec, None, "{text}");
        assert!(behaviour.complaint.unwrap().starts_with(EXEC), "{text}");
    }
    assert!(read(&[(HTTP, "/ nothing")]).complaint.is_some());
    assert!(read(&[(HTTP, "/ 404")]).answers.is_some());
}
