use std::collections::BTreeSet;

use super::{CONTROLLERS, Controllers};
use crate::runtime::{Options, Registration, followed};
use crate::shell::kinds::{Kind, Need};

fn names(controllers: &Controllers) -> Vec<&'static str> {
    controllers.registrations().iter().map(Registration::name).collect()
}

fn kinds(controllers: &Controllers) -> (Vec<Kind>, Vec<Kind>) {
    let options = Options::default();
    let made: Vec<_> = controllers.registrations().iter().map(|one| one.make(&options)).collect();
    let followed = followed(&made);
    let optional = followed.iter().filter(|handling| handling.need == Need::Optional);
    let optional = optional.map(|handling| handling.kind).collect();
    (followed.iter().map(|handling| handling.kind).collect(), optional)
}

#[test]
fn every_row_has_a_name_of_its_own_and_says_what_it_is_about() {
    let names: BTreeSet<_> = CONTROLLERS.iter().map(|row| row.name).collect();
    assert_eq!(names.len(), CONTROLLERS.len());
    for row in CONTROLLERS {
        assert!(row.workers > 0 && !row.about.is_empty() && !row.about.contains('\n'), "{row:?}");
    }
}

#[test]
fn rows_are_selected_by_name_and_an_unknown_name_is_named() {
    assert_eq!(
        names(&Controllers::default()),
        ["rollout-group", "phased-rollout", "extended-statefulset", "scaling"]
    );
    let some = Controllers::named(&["statefulset", "rollout-group"]).unwrap();
    assert_eq!(names(&some), ["rollout-group", "statefulset"], "in the order of the table");
    assert_eq!(Controllers::named(&["statefulset", "nonsense"]).unwrap_err(), "nonsense");
}

#[test]
fn a_controller_may_take_the_place_of_another_one_of_its_name() {
    let wrapped = || Registration::new("rollout-group", 1, |_| super::RolloutGroups::default());
    assert_eq!(
        names(&Controllers::default().and(wrapped())),
        ["rollout-group", "phased-rollout", "extended-statefulset", "scaling"]
    );
    assert_eq!(names(&Controllers::named(&[]).unwrap().and(wrapped())), ["rollout-group"]);
}

#[test]
fn what_is_followed_is_what_the_controllers_read_and_only_the_keys_of_one_of_several_may_be_missing() {
    use Kind::{
        Claim, ConfigMap, Extended, FissileExtended, PhasedRollout, Pod, Revision, ScalingPolicy, Service,
        StatefulSet,
    };
    let read = |names: &[&str]| kinds(&Controllers::named(names).unwrap());
    assert_eq!(read(&["rollout-group"]), (vec![StatefulSet, Pod], vec![]));
    assert_eq!(read(&["phased-rollout"]), (vec![StatefulSet, Pod, PhasedRollout], vec![]));
    assert_eq!(read(&["statefulset"]), (vec![StatefulSet, Pod, Claim, Revision], vec![]));
    let extended = vec![StatefulSet, Pod, Extended, FissileExtended, Service, ScalingPolicy, Claim];
    assert_eq!(read(&["extended-statefulset"]), (extended, vec![FissileExtended, Service, Claim]));
    assert_eq!(read(&["scaling"]), (vec![StatefulSet, Pod, ScalingPolicy, ConfigMap], vec![ConfigMap]));
    let every = vec![
        StatefulSet,
        Pod,
        PhasedRollout,
        Extended,
        FissileExtended,
        Service,
        ScalingPolicy,
        Claim,
        ConfigMap,
        Revision,
    ];
    let may_be_missing = vec![PhasedRollout, Extended, FissileExtended, Service, ScalingPolicy, ConfigMap];
    assert_eq!(kinds(&Controllers::all()), (every, may_be_missing));
}
