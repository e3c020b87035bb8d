use super::{MAX_FILLED_BYTES, QueryContext};
use crate::phased_rollout::answer::QueryError;

fn subject(updated: Vec<&str>) -> QueryContext<'_> {
    QueryContext { namespace: "prod", set: "web", pod: "web-2", updated, revision: "web-7c9" }
}

#[test]
fn each_placeholder_stands_for_its_value_and_nothing_else_does() {
    for (expr, expected) in [
        ("up{}", "up{}"),
        ("up{namespace=\"${namespace}\",pod=\"${pod}\"}", "up{namespace=\"prod\",pod=\"web-2\"}"),
        ("${set} ${revision} ${set}", "web web-7c9 web"),
        ("up{pod=~\"${updatedPods}\"}", "up{pod=~\"web-2|web-1\"}"),
        ("${nonsense} ${pod", "${nonsense} ${pod"),
        ("${${pod}}", "${web-2}"),
        ("$pod {pod} $${pod}", "$pod {pod} $web-2"),
        ("${}", "${}"),
        ("", ""),
        ("${pod}é${set}", "web-2éweb"),
    ] {
        assert_eq!(subject(vec!["web-2", "web-1"]).fill(expr).as_deref(), Ok(expected), "{expr}");
    }
}

#[test]
fn before_the_first_pod_the_updated_ones_are_none_and_dots_are_dots() {
    assert_eq!(subject(vec![]).fill("${updatedPods}").as_deref(), Ok("-"), "no pod has this name");
    assert_eq!(subject(vec!["my.web-1"]).fill("${updatedPods}").as_deref(), Ok("my[.]web-1"));
}

#[test]
fn a_value_is_not_filled_in_again() {
    let subject = QueryContext { revision: "${pod}", ..subject(vec![]) };
    assert_eq!(subject.fill("${revision}").as_deref(), Ok("${pod}"));
}

/// Ten thousand names, as often as an expression of the schema's length can ask for them, would be hundreds of megabytes.
#[test]
fn an_expression_that_outgrows_its_limit_is_refused_and_not_built() {
    let names: Vec<_> = (0..10_000).map(|ordinal| format!("web-{ordinal}")).collect();
    let subject = subject(names.iter().map(String::as_str).collect());
    let expr = "${updatedPods}".repeat(1_000);
    let Err(QueryError::Config(message)) = subject.fill(&expr) else { panic!("it is too long") };
    assert!(message.contains("longer than 64 KiB") && message.contains("${set}"), "{message}");
    let at_the_limit = "x".repeat(MAX_FILLED_BYTES);
    assert_eq!(subject.fill(&at_the_limit).as_deref(), Ok(at_the_limit.as_str()));
    assert!(subject.fill(&format!("{at_the_limit}x")).is_err());
}
