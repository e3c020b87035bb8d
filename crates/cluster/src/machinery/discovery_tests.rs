use super::*;

#[test]
fn versions_are_ordered_as_kubernetes_orders_them() {
    let mut versions = [
        "v1alpha1",
        "foo10",
        "v11beta2",
        "v10",
        "v3beta1",
        "v2",
        "v11alpha2",
        "v1",
        "v12alpha1",
        "foo1",
        "v10beta3",
        "v0",
    ];
    versions.sort_by_key(|version| rank(version));
    assert_eq!(
        versions,
        [
            "v10",
            "v2",
            "v1",
            "v11beta2",
            "v10beta3",
            "v3beta1",
            "v12alpha1",
            "v11alpha2",
            "v1alpha1",
            "foo1",
            "foo10",
            "v0"
        ]
    );
}

#[test]
fn who_prefers_the_plain_lists_gets_them() {
    let newest = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
    assert_eq!(aggregated(newest).map(|form| form.content_type), Some(newest));
    let either = format!("{newest}, application/json");
    assert_eq!(aggregated(&either).map(|form| form.content_type), Some(newest));
    for plain in ["", "application/json", &format!("application/json,{newest}"), "application/json;as=Table"]
    {
        assert!(aggregated(plain).is_none(), "{plain}");
    }
}
