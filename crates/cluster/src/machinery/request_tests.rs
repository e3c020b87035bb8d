use super::*;

fn shown(path: &str) -> String {
    let Some(parsed) = ResourcePath::parse(path) else {
        return "nothing".to_owned();
    };
    let ResourcePath { group, version, namespace, name, subresource, plural } = &parsed;
    let or_dash = |part: &Option<String>| part.clone().unwrap_or_else(|| "-".to_owned());
    let (namespace, name, subresource) = (or_dash(namespace), or_dash(name), or_dash(subresource));
    format!("{group}/{version} {plural} {namespace} {name} {subresource}")
}

#[test]
fn paths_name_resources() {
    for (path, expected) in [
        ("/api/v1/pods", "/v1 pods - - -"),
        ("/api/v1/namespaces/a/pods", "/v1 pods a - -"),
        ("/api/v1/namespaces/a/pods/p", "/v1 pods a p -"),
        ("/api/v1/namespaces/a/pods/p/status", "/v1 pods a p status"),
        ("/api/v1/namespaces", "/v1 namespaces - - -"),
        ("/api/v1/namespaces/a", "/v1 namespaces - a -"),
        ("/api/v1/namespaces/a/finalize", "/v1 namespaces - a finalize"),
        ("/apis/apps/v1/namespaces/a/statefulsets/s/scale", "apps/v1 statefulsets a s scale"),
        (
            "/apis/rbac.authorization.k8s.io/v1/clusterroles/a%3Ab",
            "rbac.authorization.k8s.io/v1 clusterroles - a:b -",
        ),
        ("/healthz", "nothing"),
        ("/api/v1", "nothing"),
    ] {
        assert_eq!(shown(path), expected, "{path}");
    }
}

#[test]
fn the_preferred_shape_is_chosen() {
    for (accept, expected) in [
        ("", Shape::Whole),
        ("application/json", Shape::Whole),
        ("application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1", Shape::MetadataOnly),
        (
            "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json",
            Shape::MetadataOnly,
        ),
        ("application/json;as=Table;v=v1;g=meta.k8s.io,application/json", Shape::Table(Include::Metadata)),
        ("application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json", Shape::Whole),
    ] {
        assert_eq!(shape(accept, &Query::default()), Ok(expected), "{accept}");
    }
}
