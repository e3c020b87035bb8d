use super::*;

#[test]
fn the_examples_are_what_is_waited_for() {
    let objects = objects().unwrap();
    let sets = objects.iter().filter(|object| object["kind"] == "StatefulSet");
    let pods: u64 = sets.map(|set| set["spec"]["replicas"].as_u64().unwrap()).sum();
    assert_eq!(pods, u64::try_from(PODS).unwrap());
}
