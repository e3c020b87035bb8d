use super::*;

fn numbers() -> BTreeMap<String, String> {
    [(ERRORS, BAD), ("text", "much")].map(|(name, value)| (name.to_owned(), value.to_owned())).into()
}

#[test]
fn a_query_is_answered_in_prometheus_form() {
    for (query, series) in [
        (ERRORS, 1),
        ("errors_per_second > 1", 1),
        ("errors_per_second >= 9", 1),
        ("errors_per_second < 1", 0),
        ("errors_per_second <= 8.5", 0),
        ("unknown > 1", 0),
        ("text", 0),
    ] {
        let (code, body) = judge(query, &numbers());
        assert_eq!(code, StatusCode::OK, "{query}");
        assert_eq!(body["status"], "success", "{query}");
        assert_eq!(body["data"]["resultType"], "vector", "{query}");
        let result = body["data"]["result"].as_array().unwrap();
        assert_eq!(result.len(), series, "{query}: {body}");
        assert!(result.iter().all(|series| series["value"][1] == "9"), "{query}: {body}");
    }
}

#[test]
fn what_is_not_understood_is_refused_and_not_passed() {
    for query in
        ["", "rate(errors_per_second[1m]) > 1 and up", "errors_per_second > x", "errors_per_second == 9"]
    {
        let (code, body) = judge(query, &numbers());
        assert_eq!(code, StatusCode::BAD_REQUEST, "{query}");
        assert_eq!(body["errorType"], "bad_data", "{query}");
    }
}

#[test]
fn a_query_comes_in_the_address_or_in_a_form() {
    let asked = |uri: &str, body: &'static str| {
        query_of(&http::Request::builder().uri(uri).body(body.as_bytes()).unwrap())
    };
    assert_eq!(asked("/api/v1/query?query=a+%3E+1", "").as_deref(), Some("a > 1"));
    assert_eq!(asked("/api/v1/query", "time=1&query=b").as_deref(), Some("b"));
    assert_eq!(asked("/api/v1/query", "time=1"), None);
}
