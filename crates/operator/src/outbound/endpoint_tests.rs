use super::{Endpoint, EndpointError};

#[test]
fn an_address_is_read_as_it_was_meant() {
    for (url, https, host, port, path, assumed) in [
        ("http://prom:9090", false, "prom", 9090, "/api/v1/query", false),
        ("prom:9000/xx", false, "prom", 9000, "/xx/api/v1/query", true),
        ("prom", false, "prom", 80, "/api/v1/query", true),
        (" prom:9090/\n", false, "prom", 9090, "/api/v1/query", true),
        ("HTTPS://Prom.Example/", true, "prom.example", 443, "/api/v1/query", false),
        ("https://prom/a/b//", true, "prom", 443, "/a/b/api/v1/query", false),
        ("http://10.0.0.1:1/x", false, "10.0.0.1", 1, "/x/api/v1/query", false),
        ("http://[2001:db8::1]:9090/x", false, "2001:db8::1", 9090, "/x/api/v1/query", false),
        ("[2001:db8::1]", false, "2001:db8::1", 80, "/api/v1/query", true),
    ] {
        let endpoint = Endpoint::parse(url).unwrap_or_else(|error| panic!("{url}: {error}"));
        let found =
            (endpoint.site.https, endpoint.site.host.as_str(), endpoint.site.port, endpoint.path.as_str());
        assert_eq!(found, (https, host, port, path), "{url}");
        assert_eq!(endpoint.scheme_was_assumed(), assumed, "{url}");
    }
}

#[test]
fn an_address_is_shown_as_it_was_written() {
    for (url, shown) in [("prom:9000/xx/", "http://prom:9000/xx"), ("https://[::1]", "https://[::1]")] {
        assert_eq!(Endpoint::parse(url).unwrap().to_string(), shown);
    }
}

#[test]
fn what_is_no_base_address_is_refused_with_a_reason() {
    for (url, expected) in [
        ("ftp://prom", "only http and https are supported, not \"ftp\""),
        ("unix:///run/prom.sock", "not \"unix\""),
        ("", "names no host"),
        ("http://", "names no host"),
        ("/prefix", "names no host"),
        ("http:///prefix", "names no host"),
        ("http://:9090", "host"),
        ("http://prom?x=1", "must not hold a query"),
        ("http://prom/?", "must not hold a query"),
        ("prom/x?next=http://a", "must not hold a query"),
        ("http://prom/#x", "must not hold a fragment"),
        ("http://prom:0", "port"),
        ("http://prom:", "port"),
        ("http://prom:65536", "port"),
        ("http://[::1]:", "port"),
        ("http://prom:port", "url: "),
        ("http://pro m", "url: "),
        ("http://[::1", "url: "),
        ("a/b://c", "it is not an address"),
    ] {
        let error = Endpoint::parse(url).expect_err(url).to_string();
        assert!(error.contains(expected), "{url}: {error}");
    }
}

#[test]
fn a_password_in_an_address_is_not_repeated() {
    for url in ["http://me:canary@prom", "me:canary@prom", "me:canary@x://prom", "canary@prom/x?y#"] {
        let error = Endpoint::parse(url).expect_err(url);
        assert!(matches!(error, EndpointError::UserInfo | EndpointError::Fragment), "{url}: {error}");
        assert!(!format!("{error} {error:?}").contains("canary"), "{url}: {error}");
    }
}
