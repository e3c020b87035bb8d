use super::super::samples::Sample;
use super::*;

#[test]
fn the_examples_are_what_is_waited_for() {
    for demo in [Demo::Rollouts, Demo::Extended, Demo::Scaling] {
        let objects = demo.objects().unwrap();
        let of_set = |object: &Value| match object["kind"].as_str().unwrap() {
            "StatefulSet" => object["spec"]["replicas"].as_u64().unwrap(),
            "ExtendedStatefulSet" => {
                let zones = object["spec"]["zones"].as_array().unwrap().len();
                object["spec"]["template"]["spec"]["replicas"].as_u64().unwrap()
                    * u64::try_from(zones).unwrap()
            }
            _ => 0,
        };
        let pods: u64 = objects.iter().map(of_set).sum();
        assert_eq!(pods, u64::try_from(demo.pods()).unwrap(), "{demo:?}");
        let active = objects.iter().filter(|object| object["spec"]["activeProbe"].is_object()).count();
        assert_eq!(active, demo.active_pods(), "{demo:?}");
    }
}

#[test]
fn each_step_of_the_opening_follows_the_complete_effect_of_the_one_before() {
    let mut sample = Sample::extended();
    let mut opening = Opening::of(Demo::Extended);
    assert_eq!(opening.next(&sample.0), Some(Key::NextVersion));
    assert_eq!(opening.next(&sample.0), None, "nothing of it is seen yet");
    sample.version("web", 1, 2, "VersionStarting");
    assert_eq!(opening.next(&sample.0), None, "it is under way");
    sample.version("web", 2, 2, "AsRequested");
    assert_eq!(opening.next(&sample.0), Some(Key::ChangeConfig));
    sample.version("db", 2, 2, "AsRequested");
    assert_eq!(opening.next(&sample.0), Some(Key::FailOrRestoreActive));
    sample.active("db", None);
    assert_eq!(opening.next(&sample.0), None, "nobody is active");
    sample.active("db", Some("db-z0-1"));
    assert_eq!(opening.next(&sample.0), Some(Key::FailOrRestoreActive));
    sample.active("db", Some("db-z0-0"));
    assert_eq!(opening.next(&sample.0), None, "that was all");
}

#[test]
fn a_key_of_the_user_ends_the_opening_but_not_before_it_has_begun() {
    let mut sample = Sample::extended();
    let mut opening = Opening::of(Demo::Extended);
    opening.end();
    assert_eq!(opening.next(&sample.0), Some(Key::NextVersion));
    opening.end();
    sample.version("web", 2, 2, "AsRequested");
    assert_eq!(opening.next(&sample.0), None);
    assert_eq!(Opening::none().next(&sample.0), None);
}

#[test]
fn the_opening_of_a_policy_scales_down_and_up_again() {
    let mut sample = Sample::scaling();
    let mut opening = Opening::of(Demo::Scaling);
    assert_eq!(opening.next(&sample.0), Some(Key::ScaleDown));
    assert_eq!(opening.next(&sample.0), None, "nothing of it is seen yet");
    sample.drains("ingester-2");
    assert_eq!(opening.next(&sample.0), None, "it drains");
    sample.removed("ingester-2");
    assert_eq!(opening.next(&sample.0), Some(Key::ScaleUp));
    assert_eq!(opening.next(&sample.0), None, "that was all");
    assert_eq!(Opening::of(Demo::Scaling).next(&Sample::default().0), None, "the policy is not there yet");
}
