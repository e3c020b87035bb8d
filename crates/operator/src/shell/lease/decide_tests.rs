use serde_json::json;

use super::*;

const ME: &str = "me";

fn seconds(seconds: u64) -> Moment {
    Moment::from_secs(seconds)
}

fn lease(holder: &str, renewal: u64, duration: i64) -> Lease {
    Lease::read(json!({
        "metadata": { "resourceVersion": renewal.to_string() },
        "spec": {
            "holderIdentity": holder,
            "leaseDurationSeconds": duration,
            "renewTime": renewal.to_string(),
            "leaseTransitions": 7,
        },
    }))
    .unwrap()
}

fn seen(holder: &str, duration: i64, at: u64) -> View {
    let mut view = View::default();
    view.found(lease(holder, 1, duration), seconds(at));
    view
}

fn leading(sent_at: u64) -> View {
    let mut view = seen("other", 15, 0);
    view.wrote(lease(ME, 2, 15), ME, seconds(sent_at), seconds(sent_at), &Timing::default());
    assert!(view.term().is_some());
    view
}

fn after(mut view: View, what: impl FnOnce(&mut View)) -> View {
    what(&mut view);
    view
}

#[test]
fn every_situation_has_its_decision() {
    let absent = |view: View, at: u64| after(view, |view| view.found_none(seconds(at)));
    let doubtful = |view: View| after(view, View::doubt);
    let over = |view: View| after(view, View::step_down);
    let relabelled = |view: View, at: u64| {
        after(view, |view| {
            let mut object = lease("other", 1, 15).to_object().unwrap();
            object["metadata"]["resourceVersion"] = json!("9");
            view.found(Lease::read(object).unwrap(), seconds(at));
        })
    };
    let follow = |until: u64| Decision::Follow { until: seconds(until) };
    let table = [
        ("nothing known yet", View::default(), 0, Decision::Read),
        ("no lease", absent(View::default(), 0), 0, Decision::Create),
        ("held by another", seen("other", 15, 100), 100, follow(115)),
        ("held by another, just before the end", seen("other", 15, 100), 114, follow(115)),
        ("silent for its time", seen("other", 15, 100), 115, Decision::Acquire(Claim::Expired)),
        ("released", seen("", 1, 100), 100, Decision::Acquire(Claim::Released)),
        ("our own without a term", over(leading(100)), 100, Decision::Acquire(Claim::Own)),
        ("answer lost while following", doubtful(seen("other", 15, 100)), 200, Decision::Read),
        (
            "renewed by another",
            after(seen("other", 15, 100), |v| v.found(lease("other", 2, 15), seconds(110))),
            115,
            follow(125),
        ),
        (
            "seen again unchanged",
            after(seen("other", 15, 100), |v| v.found(lease("other", 1, 15), seconds(114))),
            115,
            Decision::Acquire(Claim::Expired),
        ),
        (
            "relabelled by a third",
            relabelled(seen("other", 15, 100), 110),
            115,
            Decision::Acquire(Claim::Expired),
        ),
        ("a longer lease is respected", seen("other", 40, 100), 130, follow(140)),
        ("a huge one only so far", seen("other", i64::MAX, 100), 100, follow(160)),
        ("a tiny one is not believed", seen("other", 1, 100), 101, follow(115)),
        ("zero is not believed", seen("other", 0, 100), 101, follow(115)),
        ("negative is not believed", seen("other", i64::MIN, 100), 101, follow(115)),
        ("deleted while another held it", absent(seen("other", 15, 100), 190), 200, follow(205)),
        (
            "heard twice that it is deleted",
            absent(absent(seen("other", 15, 100), 190), 200),
            205,
            Decision::Create,
        ),
        ("deleted after it was released", absent(seen("", 1, 100), 190), 190, follow(205)),
        ("deleted for long enough", absent(seen("other", 15, 100), 190), 205, Decision::Create),
        ("leading", leading(100), 100, Decision::Lead { until: seconds(105) }),
        ("leading, renewal due", leading(100), 105, Decision::Renew),
        ("leading, late but in time", leading(100), 109, Decision::Renew),
        ("leading past its time", leading(100), 110, Decision::StepDown(Loss::NotRenewed)),
        ("leading, answer lost", doubtful(leading(100)), 107, Decision::Read),
        (
            "leading, answer lost, past its time",
            doubtful(leading(100)),
            110,
            Decision::StepDown(Loss::NotRenewed),
        ),
        (
            "leading, another found",
            after(leading(100), |v| v.found(lease("other", 3, 15), seconds(106))),
            106,
            Decision::StepDown(Loss::Taken),
        ),
        (
            "leading, released by a third",
            after(leading(100), |v| v.found(lease("", 3, 1), seconds(106))),
            106,
            Decision::StepDown(Loss::Taken),
        ),
        ("leading, deleted", absent(leading(100), 106), 106, Decision::StepDown(Loss::Deleted)),
        ("deleted while we held it", over(absent(leading(100), 106)), 106, follow(121)),
    ];
    for (situation, view, now, expected) in table {
        assert_eq!(decide(&view, ME, seconds(now), &Timing::default()), expected, "{situation}");
    }
}

#[test]
fn a_term_counts_from_when_its_write_was_sent() {
    let timing = Timing::default();
    let mut view = seen("", 1, 0);
    view.wrote(lease(ME, 2, 15), ME, seconds(20), seconds(24), &timing);
    assert_eq!(decide(&view, ME, seconds(29), &timing), Decision::Renew);
    assert_eq!(decide(&view, ME, seconds(30), &timing), Decision::StepDown(Loss::NotRenewed));
}

#[test]
fn a_renewal_prolongs_the_term_and_keeps_its_epoch() {
    let timing = Timing::default();
    let mut view = leading(100);
    let epoch = view.term().unwrap().epoch;
    view.wrote(lease(ME, 3, 15), ME, seconds(105), seconds(106), &timing);
    assert_eq!(view.term(), Some(Term { epoch, sent_at: seconds(105) }));
}

#[test]
fn an_answer_after_the_end_of_the_term_does_not_revive_it() {
    let timing = Timing::default();
    let mut view = leading(100);
    view.wrote(lease(ME, 3, 15), ME, seconds(109), seconds(111), &timing);
    assert_eq!(decide(&view, ME, seconds(111), &timing), Decision::StepDown(Loss::NotRenewed));
    view.step_down();
    assert_eq!(decide(&view, ME, seconds(111), &timing), Decision::Acquire(Claim::Own));
}

#[test]
fn an_answer_that_took_longer_than_a_term_begins_none() {
    let mut view = seen("", 1, 0);
    view.wrote(lease(ME, 2, 15), ME, seconds(20), seconds(30), &Timing::default());
    assert_eq!(view.term(), None);
}

#[test]
fn a_write_that_came_back_with_another_holder_begins_no_term() {
    let mut view = seen("", 1, 0);
    view.wrote(lease("other", 2, 15), ME, seconds(20), seconds(20), &Timing::default());
    assert_eq!(view.term(), None);
}

#[test]
fn the_epoch_is_the_number_of_the_term_and_always_grows() {
    let timing = Timing::default();
    let term = |view: &mut View, transitions: i64| {
        let mut object = lease(ME, 1, 15).to_object().unwrap();
        object["spec"]["leaseTransitions"] = json!(transitions);
        view.step_down();
        view.wrote(Lease::read(object).unwrap(), ME, seconds(1), seconds(1), &timing);
        view.term().unwrap().epoch.number()
    };
    let mut view = View::default();
    assert_eq!(term(&mut view, 7), 7);
    assert_eq!(term(&mut view, 9), 9);
    assert_eq!(term(&mut view, 1), 10, "after somebody deleted the lease");
    assert_eq!(term(&mut view, -5), 11, "whatever the server says");
}

#[test]
fn what_a_failed_write_tells() {
    let timing = Timing::default();
    let table = [
        (Failure::Unknown, Decision::Read),
        (Failure::Refused, Decision::Renew),
        (Failure::Absent, Decision::StepDown(Loss::Deleted)),
    ];
    for (failure, expected) in table {
        let mut view = leading(100);
        view.failed(failure, seconds(105));
        assert_eq!(decide(&view, ME, seconds(105), &timing), expected, "{failure:?}");
    }
}
