use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::{MAX_CHECKED_BYTES, fault, one_line};

#[test]
fn usual_expressions_have_no_fault() {
    for expr in [
        "up{}",
        "up{job=\"web\"} == 0",
        "sum by (pod) (rate(errors_total{pod=~\"web-1|web-2\"}[5m])) / 2 > 0.05",
        "1",
        "\"text\"",
        "vector(1) unless on() (up)",
    ] {
        assert_eq!(fault(expr), None, "{expr}");
    }
}

#[test]
fn a_broken_expression_has_a_fault_in_words() {
    for expr in ["", "up{", "sum(", "up == == 1", "rate(up)", "up{job=~\"(\"}"] {
        let fault = fault(expr).unwrap_or_else(|| panic!("{expr:?} is taken for good"));
        assert!(
            !fault.is_empty() && fault.chars().count() <= 300 && !fault.contains('\n'),
            "{expr:?}: {fault}"
        );
    }
}

#[test]
fn a_long_expression_is_left_to_the_server() {
    let broken = "(".repeat(MAX_CHECKED_BYTES);
    assert!(fault(&broken).is_some());
    assert_eq!(fault(&format!("{broken}(")), None);
}

/// The stack of a test's thread is as large as that of a worker of the runtime.
#[test]
fn no_nesting_of_the_permitted_length_ends_the_process() {
    for (open, core, close) in [("(", "1", ")"), ("-", "1", ""), ("abs(", "up", ")"), ("up+(", "up", ")")] {
        let levels = (MAX_CHECKED_BYTES - core.len()) / (open.len() + close.len());
        let expr = format!("{}{core}{}", open.repeat(levels), close.repeat(levels));
        assert_eq!(fault(&expr), None, "{levels} times {open}");
    }
}

#[test]
fn no_soup_of_words_ends_the_process() {
    const WORDS: [&str; 24] = [
        "up", "{", "}", "(", ")", "[5m]", "[", ":", "sum", "by", "offset", "@", "-", "\"", "'", "`", "\\",
        "=~", "1e999", "0x", "bool", "é", "\u{0}", "5m",
    ];
    let seed = rand::rng().random();
    println!("seed {seed}");
    let mut random = StdRng::seed_from_u64(seed);
    for _ in 0..2000 {
        let words = (0..random.random_range(1..30)).map(|_| WORDS[random.random_range(0..WORDS.len())]);
        fault(&words.collect::<Vec<_>>().join(" "));
    }
}

#[test]
fn white_space_and_comments_go_but_quoted_text_stays() {
    for (expr, line) in [
        ("  up  \n", "up"),
        ("sum(\n\t a\r\n) >  1", "sum( a ) > 1"),
        ("up{a=\"x  y\"}  ==  1", "up{a=\"x  y\"} == 1"),
        ("up{a=\"x \\\"  y\"}   > 1", "up{a=\"x \\\"  y\"} > 1"),
        ("up{a='x  \" y'}   > 1", "up{a='x  \" y'} > 1"),
        ("up{a=`x \\`}   > 1", "up{a=`x \\`} > 1"),
        ("up # it's  a \"comment\nand   down", "up and down"),
        ("up{a=\"#  no comment\"}   # one", "up{a=\"#  no comment\"}"),
        ("# first\nup", "up"),
        ("up{a=\"open   end", "up{a=\"open   end"),
        ("up\u{a0}\u{2003}x", "up x"),
        ("", ""),
    ] {
        assert_eq!(one_line(expr), line, "{expr:?}");
    }
}
