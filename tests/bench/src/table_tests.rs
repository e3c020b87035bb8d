use super::*;

#[test]
fn only_the_text_between_the_markers_changes() {
    let page =
        "# Title\n<!-- measured: a -->\nold\n<!-- end -->\nmore\n<!-- measured: b -->\nkept\n<!-- end -->\n";
    let changed = replace(page, "a", "new\n").unwrap();
    assert_eq!(
        changed,
        "# Title\n<!-- measured: a -->\nnew\n<!-- end -->\nmore\n<!-- measured: b -->\nkept\n<!-- end -->\n"
    );
    assert_eq!(replace(&changed, "a", "new\n").unwrap(), changed, "a second time changes nothing");
}

#[test]
fn a_page_without_the_markers_is_refused() {
    assert!(replace("# Title\n", "a", "new\n").is_err());
    assert!(replace("<!-- measured: a -->\nold\n", "a", "new\n").is_err());
}

#[test]
fn a_table_says_which_goals_were_missed() {
    let rows = vec![
        Row::limited("time", "3 ms".to_owned(), "at most 2 ms", false, "9 ms"),
        Row::plain("load", "1".to_owned(), ""),
    ];
    let section = Section::of("x", rows);
    let expected = "How.\n\n| measure | ours | goal | peers |\n|---|---|---|---|\n\
                    | time | 3 ms | at most 2 ms: **missed** | 9 ms |\n| load | 1 | - |  |\n";
    assert_eq!(section.render("How."), expected);
}

#[test]
fn figures_carry_their_unit() {
    assert_eq!(milliseconds(Duration::from_micros(12_345)), "12.3 ms");
    assert_eq!(seconds(Duration::from_millis(1_234)), "1.23 s");
    assert_eq!(mebibytes(1536), "1.5 MiB");
}
