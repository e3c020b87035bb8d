use super::Subject;

fn subject(updated: Vec<&str>) -> Subject<'_> {
    Subject { namespace: "prod", set: "web", pod: "web-2", updated, revision: "web-7c9" }
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
        assert_eq!(subject(vec!["web-2", "web-1"]).fill(expr), expected, "{expr}");
    }
}

#[test]
fn before_the_first_pod_the_updated_ones_are_none_and_dots_are_dots() {
    assert_eq!(subject(vec![]).fill("${updatedPods}"), "-", "no pod has this name");
    assert_eq!(subject(vec!["my.web-1"]).fill("${updatedPods}"), "my[.]web-1");
}

#[test]
fn a_value_is_not_filled_in_again() {
    let subject = Subject { revision: "${pod}", ..subject(vec![]) };
    assert_eq!(subject.fill("${revision}"), "${pod}");
}
