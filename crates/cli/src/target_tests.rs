use serde_json::json;

use super::*;

const ALL: [Kind; 5] =
    [Kind::StatefulSet, Kind::PhasedRollout, Kind::Extended, Kind::FissileExtended, Kind::ScalingPolicy];
const EXTENDED: [Kind; 2] = [Kind::Extended, Kind::FissileExtended];

fn parsed(text: &str) -> Option<(Vec<Kind>, &str)> {
    Target::parse(text, &ALL).ok().map(|target| (target.kinds, target.name))
}

fn found(kind: Kind, owner: Option<Kind>) -> Found {
    let owners = owner.map(|owner| {
        let definition = owner.definition();
        json!([{ "apiVersion": definition.api_version, "kind": definition.kind, "name": "db", "controller": true }])
    });
    Found { kind, name: "db".to_owned(), object: json!({ "metadata": { "ownerReferences": owners } }) }
}

fn choose(found: &[Found], refused: Option<&str>) -> Result<String, String> {
    let target = Target { kinds: ALL.to_vec(), name: "db" };
    let chosen = target.choose(found.to_vec(), "ns", refused);
    chosen.map(|found| found.title()).map_err(|error| error.to_string())
}

#[test]
fn a_name_may_be_of_any_kind_unless_it_says_which() {
    let rows: [(&str, Option<&[Kind]>); 19] = [
        ("web", Some(&ALL)),
        ("sts/web", Some(&[Kind::StatefulSet])),
        ("statefulset/web", Some(&[Kind::StatefulSet])),
        ("statefulset.apps/web", Some(&[Kind::StatefulSet])),
        ("phasedrollout/web", Some(&[Kind::PhasedRollout])),
        ("phr/web", Some(&[Kind::PhasedRollout])),
        ("phasedrollout.sts.plus/web", Some(&[Kind::PhasedRollout])),
        ("ests/web", Some(&[Kind::Extended])),
        ("fests/web", Some(&[Kind::FissileExtended])),
        ("extendedstatefulsets/web", Some(&EXTENDED)),
        ("extendedstatefulset.sts.plus/web", Some(&[Kind::Extended])),
        ("extendedstatefulset.fissile.cloudfoundry.org/web", Some(&[Kind::FissileExtended])),
        ("scp/web", Some(&[Kind::ScalingPolicy])),
        ("scalingpolicies/web", Some(&[Kind::ScalingPolicy])),
        ("scalingpolicy.sts.plus/web", Some(&[Kind::ScalingPolicy])),
        ("phasedrollout/", None),
        ("pod/web-0", None),
        ("statefulset.sts.plus/web", None),
        ("", None),
    ];
    for (text, kinds) in rows {
        let expected = kinds.map(|kinds| (kinds.to_vec(), "web"));
        assert_eq!(parsed(text), expected, "{text:?}");
    }
    assert_eq!(parsed("sts/web/0"), None);
}

#[test]
fn a_type_that_is_not_known_or_not_possible_is_answered_with_those_that_are() {
    let refusal = |text: &str, kinds: &[Kind]| Target::parse(text, kinds).unwrap_err().to_string();
    let unknown = refusal("pod/web-0", &ALL);
    assert!(
        unknown.contains("\"pod\"") && unknown.contains("extendedstatefulset.sts.plus/NAME"),
        "{unknown}"
    );
    let set = refusal("sts/web", &EXTENDED);
    assert!(
        set.contains("sts/web cannot be approved") && set.contains("extendedstatefulset.sts.plus/NAME"),
        "{set}"
    );
}

#[test]
fn a_name_that_several_have_is_answered_with_the_ways_to_write_each() {
    let [set, rollout] = [Kind::StatefulSet, Kind::PhasedRollout].map(|kind| found(kind, None));
    assert_eq!(
        choose(&[set, rollout], None).unwrap_err(),
        "db is ambiguous in namespace ns: write statefulset/db or phasedrollout/db"
    );
    assert_eq!(
        choose(&EXTENDED.map(|kind| found(kind, None)), None).unwrap_err(),
        "db is ambiguous in namespace ns: write extendedstatefulset.sts.plus/db or \
         extendedstatefulset.fissile.cloudfoundry.org/db"
    );
}

#[test]
fn the_set_that_an_object_controls_is_a_part_of_it_and_makes_its_name_not_ambiguous() {
    let own = found(Kind::StatefulSet, Some(Kind::Extended));
    let extended = found(Kind::Extended, None);
    assert_eq!(choose(&[own.clone(), extended.clone()], None).unwrap(), "extendedstatefulset.sts.plus/db");
    // Alone it is what was meant, and somebody else's set is another object.
    assert_eq!(choose(&[own], None).unwrap(), "statefulset/db");
    let others = found(Kind::StatefulSet, Some(Kind::FissileExtended));
    assert!(choose(&[others, extended], None).unwrap_err().contains("ambiguous"));
}

#[test]
fn a_name_that_nothing_has_is_answered_with_what_was_looked_for() {
    assert_eq!(
        choose(&[], None).unwrap_err(),
        "there is no StatefulSet, PhasedRollout, ExtendedStatefulSet or ScalingPolicy db in namespace ns"
    );
    let refused = choose(&[], Some("may not get statefulsets")).unwrap_err();
    assert!(refused.contains("not found") && refused.contains("may not get statefulsets"), "{refused}");
    assert_eq!(
        choose(&[found(Kind::Extended, None)], Some("may not")).unwrap(),
        "extendedstatefulset.sts.plus/db"
    );
}
