use super::*;

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

fn wrong(given: &[&str]) -> String {
    format!("{:#}", parse(&words(given)).unwrap_err())
}

fn set(owner: Option<&str>) -> Found {
    let owners = owner.map(|name| json!([{ "kind": "Database", "name": name, "controller": true }]));
    let template = json!({ "metadata": { "name": "data" }, "spec": { "resources": { "requests": { "storage": "1Gi" } } } });
    let object = json!({
        "metadata": { "ownerReferences": owners },
        "spec": { "volumeClaimTemplates": [template] },
    });
    Found { kind: Kind::StatefulSet, name: "db".into(), object }
}

#[test]
fn what_is_no_size_is_refused_in_its_own_words() {
    assert_eq!(wrong(&["data"]), "\"data\" is not CLAIM=SIZE, such as data=20Gi");
    assert_eq!(wrong(&["data=much"]), "\"data=much\": \"much\" is no size above 0, such as 20Gi");
    assert_eq!(wrong(&["data=0"]), "\"data=0\": \"0\" is no size above 0, such as 20Gi");
    assert_eq!(wrong(&["=1Gi"]), "\"=1Gi\": \"1Gi\" is no size above 0, such as 20Gi");
    assert_eq!(wrong(&["data=1Gi", "data=2Gi"]), "data is given twice");
    assert_eq!(listed(&parse(&words(&["data=1Gi", "wal=5G"])).unwrap()), "data=1Gi, wal=5G");
}

#[test]
fn a_set_that_cannot_have_the_size_is_refused_before_anything_is_written() {
    let refused =
        |set: &Found, size: &str| check(set, &parse(&words(&[size])).unwrap()).unwrap_err().to_string();
    assert_eq!(
        refused(&set(None), "data=512Mi"),
        "statefulset/db: volumeClaimTemplate data has 1Gi, and a volume cannot shrink to 512Mi"
    );
    assert_eq!(
        refused(&set(None), "dta=2Gi"),
        "statefulset/db: it has no volumeClaimTemplate dta, only data"
    );
    assert_eq!(
        refused(&set(Some("main")), "data=2Gi"),
        "statefulset/db is controlled by Database main, which has to ask for the size"
    );
    check(&set(None), &parse(&words(&["data=2Gi"])).unwrap()).unwrap();
}

#[test]
fn sizes_of_a_policy_are_kept_and_changed_by_name() {
    let claim = |name: &str, storage: &str| VolumeClaim { name: name.into(), storage: storage.into() };
    let before = [claim("data", "1Gi"), claim("wal", "3Gi")];
    let wanted = parse(&words(&["data=2Gi", "new=4Gi"])).unwrap();
    assert_eq!(merged(&before, &wanted), [claim("data", "2Gi"), claim("wal", "3Gi"), claim("new", "4Gi")]);
}

#[test]
fn progress_is_that_of_the_present_spec_and_size() {
    let asked = Asked { name: "db".into(), generation: 3, hash: "h".into() };
    let of = |status: Value| progress(&json!({ "status": status }), &asked);
    let condition = |kind: &str, message: &str| json!({ "type": kind, "status": "True", "reason": "X", "message": message, "lastTransitionTime": "2026-01-01T00:00:00Z" });
    assert_eq!(of(json!(null)), Progress::Unobserved);
    assert_eq!(of(json!({ "observedGeneration": 2 })), Progress::Unobserved);
    let settled = json!({ "type": "None", "asked": "h", "replicas": 3 });
    assert_eq!(of(json!({ "observedGeneration": 3, "remedy": settled })), Progress::Done);
    let former = json!({ "type": "None", "asked": "before", "replicas": 3 });
    assert_eq!(
        of(json!({ "observedGeneration": 3, "remedy": former })),
        Progress::UnderWay { remedy: None, waits: String::new() }
    );
    let remedy = json!({ "type": "Recreate", "asked": "h", "message": "Grow 3 claims." });
    let waits = [condition("Ready", "Waiting.")];
    assert_eq!(
        of(json!({ "observedGeneration": 3, "remedy": remedy, "conditions": waits })),
        Progress::UnderWay { remedy: Some("Grow 3 claims.".into()), waits: "Waiting.".into() }
    );
    let stalled = [condition("Ready", "Waiting."), condition("Stalled", "It cannot grow.")];
    assert_eq!(
        of(json!({ "observedGeneration": 3, "conditions": stalled })),
        Progress::Stalled("It cannot grow.".into())
    );
}
