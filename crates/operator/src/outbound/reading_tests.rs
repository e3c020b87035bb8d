use sts_plus_planner::phased_rollout::answer::{Answer, Data, Extent, QueryError};

use super::{MAX_BODY_BYTES, MAX_SERIES, MAX_SKIPPED_BYTES, Reading};

/// Reads a body in pieces of some size, and says how much of it was taken.
fn in_pieces(body: &str, extent: Extent, piece: usize) -> (Result<Answer, QueryError>, usize) {
    let mut reading = Reading::new(extent);
    for piece in body.as_bytes().chunks(piece) {
        if reading.take(piece).is_break() {
            break;
        }
    }
    let read = reading.read;
    (reading.finish(200), read)
}

fn read(body: &str) -> Result<Answer, QueryError> {
    let (answer, _) = in_pieces(body, Extent::Values, 4096);
    let (bytewise, _) = in_pieces(body, Extent::Values, 1);
    // NaN differs from itself.
    assert_eq!(format!("{answer:?}"), format!("{bytewise:?}"), "the size of the pieces changes nothing");
    answer
}

fn data(data: &str) -> Result<Data, QueryError> {
    read(&format!(r#"{{"status":"success","data":{data}}}"#)).map(|answer| answer.data)
}

fn failed(message: &str) -> Result<Answer, QueryError> {
    Err(QueryError::Failed(message.to_owned()))
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
        let found = read(body);
        assert!(matches!(found, Err(QueryError::Failed(_))), "{body}: {found:?}");
    }
}

#[test]
fn warnings_and_infos_are_told_apart_and_not_too_many() {
    let body = r#"{"status":"success","data":{"resultType":"vector","result":[]},
        "warnings":["a","b","c"],"infos":["d","e","f"]}"#;
    let answer = read(body).unwrap();
    assert_eq!((answer.warnings.join(""), answer.infos.join("")), ("abc".to_owned(), "def".to_owned()));
    let body = body.replace(r#"["a","b","c"]"#, "null").replace(r#","infos":["d","e","f"]"#, "");
    let answer = read(&body).unwrap();
    assert_eq!((answer.warnings, answer.infos), (Vec::new(), Vec::new()));
    let many = format!("[{}]", [r#""x""#; 9].join(","));
    let body =
        format!(r#"{{"status":"success","data":{{"resultType":"vector","result":[]}},"infos":{many}}}"#);
    let answer = read(&body).unwrap();
    assert_eq!(answer.infos.len(), 5);
}

/// A server may send many remarks; the one that makes the answer unusable must not be among those that are dropped.
#[test]
fn the_weightiest_warnings_are_kept() {
    let infos = [r#""PromQL info: x""#; 9].join(",");
    let warnings = format!(r#"[{infos},"PromQL warning: y",{infos},"store unreachable"]"#);
    let body = format!(
        r#"{{"status":"success","data":{{"resultType":"vector","result":[]}},"warnings":{warnings}}}"#
    );
    let answer = read(&body).unwrap();
    assert_eq!(answer.warnings[..3], ["store unreachable", "PromQL warning: y", "PromQL info: x"]);
    assert_eq!(answer.warnings.len(), 5);
}

#[test]
fn a_partial_answer_is_known_as_one() {
    for (field, partial) in [
        (r#""isPartial":true,"#, true),
        (r#""isPartial":false,"#, false),
        (r#""isPartial":null,"#, false),
        ("", false),
    ] {
        let body = format!(r#"{{"status":"success",{field}"data":{{"resultType":"vector","result":[]}}}}"#);
        let answer = read(&body).unwrap();
        assert_eq!(answer.partial, partial, "{field}");
    }
    let body = r#"{"status":"success","isPartial":"no","data":{"resultType":"vector","result":[]}}"#;
    let found = read(body);
    assert!(matches!(found, Err(QueryError::Failed(_))), "{found:?}");
}

/// A vector of so many series, with labels.
fn vector(series: usize) -> String {
    let one = r#"{"metric":{"__name__":"up","instance":"10.0.0.1:9090","job":"node"},"value":[1,"1"]}"#;
    let all = vec![one; series].join(",");
    format!(r#"{{"status":"success","data":{{"resultType":"vector","result":[{all}]}},"warnings":["late"]}}"#)
}

/// Forty-four times its size is what such an answer cost when it was parsed as a whole.
#[test]
fn an_answer_costs_no_more_than_the_values_that_are_kept() {
    let hostile = format!(
        r#"{{"status":"success","data":{{"result":[{}],"resultType":"matrix"}}}}"#,
        "[0],".repeat(1 << 20)
    );
    for extent in [Extent::First, Extent::Presence, Extent::Values] {
        let (answer, read) = in_pieces(&hostile, extent, 4096);
        assert_eq!(answer, failed("the answer is not one of the Prometheus API: it has another form"));
        assert_eq!(read, 4096, "the first piece tells");
    }
    let labels = format!(
        r#"{{"status":"success","data":{{"resultType":"vector","result":[{{"metric":{{"a":"{}"#,
        "x".repeat(4 << 20)
    );
    for extent in [Extent::First, Extent::Presence, Extent::Values] {
        let (answer, read) = in_pieces(&labels, extent, 4096);
        assert_eq!(answer, failed("the answer is larger than 256 KiB: aggregate in the query"));
        assert!(read <= MAX_BODY_BYTES + 4096, "{read}");
    }
}

#[test]
fn the_first_series_decides_and_reading_stops() {
    let (answer, read) = in_pieces(&vector(100_000), Extent::First, 512);
    let answer = answer.unwrap();
    assert_eq!((answer.data, answer.more), (Data::Series(vec![1.0]), true));
    assert_eq!(read, 512);
    // A range may be long; its first sample decides.
    let samples = r#"[1,"7"],"#.repeat(100_000);
    let range = format!(
        r#"{{"status":"success","data":{{"resultType":"matrix","result":[{{"metric":{{}},"values":[{samples}"#
    );
    let (answer, read) = in_pieces(&range, Extent::First, 512);
    assert_eq!((answer.unwrap().data, read), (Data::Series(vec![7.0]), 512));
    // An error may come after its data, so before the status nothing is decided.
    let error = r#"{"data":{"resultType":"vector","result":[{"metric":{},"value":[1,"1"]}]},"status":"error","error":"x"}"#;
    assert_eq!(in_pieces(error, Extent::First, 512).0, failed("the server answered 200 with an error: x"));
    let (empty, _) = in_pieces(&vector(0), Extent::First, 512);
    let empty = empty.unwrap();
    assert_eq!(
        (empty.data, empty.more, empty.warnings),
        (Data::Series(vec![]), false, vec!["late".to_owned()])
    );
    // Marked as partial before its data, as VictoriaMetrics does.
    let partial = r#"{"status":"success","isPartial":true,"data":{"resultType":"vector","result":[{"metric":{},"value":[1,"1"]}]}}"#;
    assert!(in_pieces(partial, Extent::First, 512).0.unwrap().partial);
}

/// An answer whose presence passes a check is read to its end, where the warnings are.
#[test]
fn more_series_than_are_kept_are_an_error_only_where_values_are_compared() {
    let (answer, _) = in_pieces(&vector(MAX_SERIES), Extent::Values, 4096);
    assert_eq!(answer.unwrap().data, Data::Series(vec![1.0; MAX_SERIES]));
    let large = vector(10_000);
    assert!(large.len() > 3 * MAX_BODY_BYTES);
    let (answer, read) = in_pieces(&large, Extent::Values, 4096);
    assert_eq!(answer, failed("the answer has more than 500 series: aggregate in the query"));
    assert!(read < MAX_BODY_BYTES, "{read}");
    let (answer, read) = in_pieces(&large, Extent::Presence, 4096);
    let answer = answer.unwrap();
    assert_eq!((answer.more, answer.warnings.join(" ")), (true, "late".to_owned()));
    assert_eq!((answer.data, read), (Data::Series(vec![1.0; MAX_SERIES]), large.len()));
    let (answer, read) = in_pieces(&vector(100_000), Extent::Presence, 4096);
    let answer = answer.unwrap();
    assert_eq!((answer.data, answer.more), (Data::Series(vec![1.0; MAX_SERIES]), true));
    assert!(read <= MAX_SKIPPED_BYTES + 4096, "reading stops: {read}");
    // Before the status nothing is decided, since an error may come after its data.
    let unknown = vector(100_000).replace(r#""status":"success","#, "");
    let (answer, read) = in_pieces(&unknown, Extent::Presence, 4096);
    assert_eq!(answer, failed("the answer is larger than 4096 KiB: aggregate in the query"));
    assert!(read <= MAX_SKIPPED_BYTES + 4096, "{read}");
}
