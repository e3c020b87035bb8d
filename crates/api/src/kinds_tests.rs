use super::{Definition, Kind};

#[test]
fn the_core_group_has_a_path_of_its_own() {
    assert_eq!(Kind::Pod.definition().root(), "/api/v1");
    assert_eq!(Kind::StatefulSet.definition().root(), "/apis/apps/v1");
    assert_eq!(Kind::Lease.definition().root(), "/apis/coordination.k8s.io/v1");
}

#[test]
fn a_kind_that_is_known_only_at_run_time_is_equal_to_itself() {
    let leaked =
        || Kind::Other(Box::leak(Box::new(Definition::built_in("v1", "Node", "nodes").cluster_wide())));
    assert_eq!(leaked(), leaked());
    assert_eq!(leaked().to_string(), "nodes");
}

#[test]
fn no_two_kinds_have_the_same_names() {
    let definitions: std::collections::BTreeSet<_> =
        Kind::NAMED.iter().map(|kind| (kind.definition().api_version, kind.plural())).collect();
    assert_eq!(definitions.len(), Kind::NAMED.len());
}

#[cfg(feature = "crd")]
#[test]
fn our_own_kinds_are_called_what_their_definitions_call_them() {
    for crd in crate::crds::all() {
        let version = &crd.spec.versions.first().expect("it has a version").name;
        let api_version = format!("{}/{version}", crd.spec.group);
        let is_named =
            |named: &&Definition| named.kind == crd.spec.names.kind && named.api_version == api_version;
        let named = Kind::NAMED.iter().map(|kind| kind.definition()).find(is_named);
        let named = named.expect("a kind of ours has a name here");
        assert_eq!(named.plural, crd.spec.names.plural);
        assert_eq!(named.namespaced, crd.spec.scope == "Namespaced");
        assert!(named.custom, "a cluster has it only once it is applied");
    }
}
