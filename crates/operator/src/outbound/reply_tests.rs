use http::StatusCode;
use hyper::body::Bytes;
use sts_plus_planner::phased_rollout::answer::{Data, QueryError};

use super::judge;
use crate::outbound::call::Reply;
use crate::outbound::endpoint::Endpoint;

fn reply(code: u16, body: &str) -> Reply {
    Reply { code: StatusCode::from_u16(code).unwrap(), location: None, body: Bytes::from(body.to_owned()) }
}

fn data(data: &str) -> Result<Data, QueryError> {
    let body = format!(r#"{{"status":"success","data":{data}}}"#);
    judge(&reply(200, &body), &Endpoint::parse("prom:9090").unwrap()).map(|answer| answer.data)
}

fn series(found: Result<Data, QueryError>) -> Vec<f64> {
    let Ok(Data::Series(values)) = found else { panic!("no series: {found:?}") };
    values
}

#[test]
fn values_are_read_from_every_shape() {
    assert_eq!(data(r#"{"resultType":"vector","result":[]}"#), Ok(Data::Series(vec![])));
    let vector = r#"{"resultType":"vector","result":[
        {"metric":{"a":"b"},"value":[1.5,"0"]},{"metric":{},"value":[1,"+Inf"]},{"metric":{},"value":[1,"-Inf"]},
        {"metric":{},"value":[1,"NaN"]},{"metric":{},"histogram":[1,{"count":"2","sum":"3"}]}]}"#;
    let values = series(data(vector));
    assert_eq!(values[..3], [0.0, f64::INFINITY, f64::NEG_INFINITY]);
    assert!(values[3].is_nan() && values[4].is_nan() && values.len() == 5, "{values:?}");
    assert_eq!(data(r#"{"resultType":"scalar","result":[1,"1e3"]}"#), Ok(Data::Scalar(1000.0)));
    assert_eq!(data(r#"{"result":[1,"a"],"resultType":"string"}"#), Ok(Data::Text("a".to_owned())));
}

#[test]
fn a_range_counts_with_its_last_sample() {
    let matrix = r#"{"resultType":"matrix","result":[
        {"metric":{},"values":[[1,"1"],[2,"2"]]},
        {"metric":{},"values":[[3,"3"]],"histograms":[[1,{}]]},
        {"metric":{},"values":[[1,"4"]],"histograms":[[2,{}]]},
        {"metric":{},"histograms":[[2,{}]]}]}"#;
    let values = series(data(matrix));
    assert_eq!(values[..2], [2.0, 3.0]);
    assert!(values[2].is_nan() && values[3].is_nan() && values.len() == 4, "{values:?}");
}

/// With `passWhen: NoData` whatever is taken for an empty result lets a pod go.
#[test]
fn nothing_but_an_empty_list_is_an_empty_result() {
    for broken in [
        "null",
        "{}",
        r#"{"resultType":"vector"}"#,
        r#"{"resultType":"vector","result":null}"#,
        r#"{"resultType":"vector","result":{}}"#,
        r#"{"result":[]}"#,
        r#"{"resultType":"streams","result":[]}"#,
        r#"{"resultType":"vector","result":[{"metric":{}}]}"#,
        r#"{"resultType":"vector","result":[{"metric":{},"value":[1,"many"]}]}"#,
        r#"{"resultType":"vector","result":[{"metric":{},"value":["1"]}]}"#,
        r#"{"resultType":"matrix","result":[{"metric":{},"values":[]}]}"#,
        r#"{"resultType":"scalar","result":[]}"#,
        r#"{"resultType":"scalar","result":[1,""]}"#,
    ] {
        assert!(matches!(data(broken), Err(QueryError::Failed(_))), "{broken}: {:?}", data(broken));
    }
    for body in ["", "[]", "{}", "null", "ok", r#"{"status":"success"}"#, r#"{"status":"fine","data":{}}"#] {
        let found = judge(&reply(200, body), &Endpoint::parse("prom").unwrap());
        assert!(matches!(found, Err(QueryError::Failed(_))), "{body}: {found:?}");
    }
}

#[test]
fn warnings_come_first_infos_after_and_not_too_many() {
    let body = r#"{"status":"success","data":{"resultType":"vector","result":[]},
        "warnings":["a","b","c"],"infos":["d","e","f"]}"#;
    let answer = judge(&reply(200, body), &Endpoint::parse("prom").unwrap()).unwrap();
    assert_eq!(answer.warnings, ["a", "b", "c", "d", "e"]);
    let body = body.replace(r#"["a","b","c"]"#, "null").replace(r#","infos":["d","e","f"]"#, "");
    let answer = judge(&reply(200, &body), &Endpoint::parse("prom").unwrap()).unwrap();
    assert_eq!(answer.warnings, Vec::<String>::new());
}

#[test]
fn a_redirect_is_told_without_what_may_be_secret_in_it() {
    for (location, shown) in [
        (Some("https://me:canary@other/api?token=canary#canary"), "to https://other/api,"),
        (Some("/login?next=canary"), "to /login,"),
        (Some("https://other"), "to https://other,"),
        (None, "answered 301, which is no result"),
    ] {
        let mut reply = reply(301, "<a>moved</a>");
        reply.location = location.map(ToOwned::to_owned);
        let found = judge(&reply, &Endpoint::parse("prom").unwrap());
        let Err(QueryError::Failed(message)) = found else { panic!("{found:?}") };
        assert!(message.contains(shown) && !message.contains("canary"), "{message}");
    }
}
