use sts_plus_api::keys;

use super::{Defect, PodRow, Waiting};
use crate::example;

fn pod() -> PodRow {
    example::pod(&example::set("web"), 12)
}

#[test]
fn labels_of_one_pod_alone_are_answered_from_the_row() {
    let pod = pod();
    assert_eq!(pod.label("name"), Some("web"));
    assert_eq!(pod.label(keys::POD_NAME), Some("web-12"));
    assert_eq!(pod.label(keys::POD_INDEX), Some("12"));
    assert_eq!(pod.label(keys::CONTROLLER_REVISION), Some("new"));
    assert_eq!(pod.label("tier"), None);
    assert_eq!(PodRow { revision: None, ..pod }.label(keys::CONTROLLER_REVISION), None);
}

#[test]
fn the_kubelets_errors_are_read_by_name_and_all_else_is_a_start() {
    let names = [
        "CrashLoopBackOff",
        "ImagePullBackOff",
        "ErrImagePull",
        "InvalidImageName",
        "CreateContainerConfigError",
        "CreateContainerError",
    ];
    for name in names {
        let waiting = Waiting::parse(name);
        assert_eq!(waiting.to_string(), name);
        assert!(waiting > Waiting::Starting, "{name} is worse than a start");
        let pod = PodRow { ready_since: None, waiting: Some(waiting), ..pod() };
        assert_eq!(pod.defect(), Some(Defect::Waits(waiting)));
        assert_eq!(pod.defect().unwrap().to_string(), format!("waits in {name}"));
    }
    for name in ["ContainerCreating", "PodInitializing", "crashloopbackoff", "", "SomethingOfTomorrow"] {
        assert_eq!(Waiting::parse(name), Waiting::Starting, "{name}");
    }
    assert_eq!(Waiting::Starting.to_string(), "Starting");
}

#[test]
fn a_start_and_few_restarts_are_no_defects() {
    let lost = PodRow { ready_since: None, ..pod() };
    assert_eq!(lost.defect(), None);
    assert_eq!(PodRow { waiting: Some(Waiting::Starting), ..lost.clone() }.defect(), None);
    assert_eq!(PodRow { terminated_restarts: Some(2), ..lost.clone() }.defect(), None);
    let tired = PodRow { terminated_restarts: Some(3), ..lost };
    assert_eq!(tired.defect(), Some(Defect::Terminated { restarts: 3 }));
    assert_eq!(tired.defect().unwrap().to_string(), "has terminated after 3 restarts");
}

#[test]
fn a_pod_that_serves_has_no_defect() {
    let pod = PodRow { waiting: Some(Waiting::ErrImagePull), terminated_restarts: Some(9), ..pod() };
    assert!(pod.ready());
    assert_eq!(pod.defect(), None);
}
