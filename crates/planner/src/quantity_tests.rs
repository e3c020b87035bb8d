use serde_json::json;

use super::*;

#[test]
fn equal_quantities_are_equal_however_they_are_written() {
    let equal = [
        (json!("1.5Gi"), json!("1536Mi")),
        (json!("1024Mi"), json!("1Gi")),
        (json!(".5Ti"), json!("512Gi")),
        (json!("5."), json!(5)),
        (json!("+1"), json!("1000m")),
        (json!(0.5), json!("500m")),
        (json!("0.1"), json!("100m")),
        (json!("1e3"), json!("1k")),
        (json!("1E3"), json!("1k")),
        (json!("12E-1"), json!("1200m")),
        (json!("1E"), json!("1000P")),
        (json!("1Ei"), json!("1024Pi")),
        (json!("1u"), json!("1000n")),
        // Smaller than the unit: rounded up.
        (json!("0.1n"), json!("1n")),
        (json!("1e-100"), json!("1n")),
    ];
    for (left, right) in equal {
        assert!(quantity(&left).is_some(), "{left}");
        assert_eq!(quantity(&left), quantity(&right), "{left} {right}");
    }
    for (left, right) in [("1", "1m"), ("1G", "1Gi"), ("1.5Gi", "1.5G"), ("1M", "1m")] {
        assert_ne!(quantity(&json!(left)), quantity(&json!(right)));
    }
}

#[test]
fn what_is_no_quantity_is_equal_to_nothing() {
    let none =
        ["", ".", "+", "Gi", "-1", "1.2.3", "1 Gi", "1gi", "1e", "1e+-3", "1Gi ", "é", "1é", "Infinity"];
    for text in
        none.into_iter().chain(["1e99999999999", "1e100", "999999999999999999999999999999999999999999"])
    {
        assert_eq!(quantity(&json!(text)), None, "{text}");
    }
    assert_eq!(quantity(&json!(null)), None);
    assert_eq!(quantity(&json!(-1)), None);
}
