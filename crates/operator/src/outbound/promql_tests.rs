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

/// The parser really does not: once it does, the exceptions can go.
#[test]
fn what_the_parser_does_not_survive_is_left_to_the_server() {
    for expr in [
        "up offset inf",
        "up offset NaN",
        "up offset 1e999",
        "up[1e+20]",
        "up[5m:99999999999999999999]",
        "up[99999999999999999999.5]",
    ] {
        assert_eq!(fault(expr), None, "{expr}");
        let parsed = std::panic::catch_unwind(|| promql_parser::parser::parse(expr).is_ok());
        assert!(parsed.is_err(), "{expr}");
    }
    assert_eq!(fault("up{a=\"é\""), None, "broken, but not ASCII");
    for looked_over in ["up > 1e6 ==", "up[99999999999999] ==", "up offset 0xFFFFFFFFFFFFFFF ==", "info{"] {
        assert!(fault(looked_over).is_some(), "{looked_over}");
    }
}

#[test]
fn no_soup_of_words_and_no_misprint_ends_the_process() {
    const WORDS: [&str; 48] = [
        "up",
        "{",
        "}",
        "(",
        ")",
        "[",
        "]",
        "[5m]",
        "[5m:1m]",
        ":",
        ",",
        "sum",
        "by",
        "without",
        "on",
        "ignoring",
        "group_left",
        "fill",
        "offset",
        "@",
        "start()",
        "end()",
        "-",
        "+",
        "^",
        "==",
        "=~",
        "!=",
        "=",
        "\"",
        "'",
        "`",
        "\\",
        "\\x4",
        "\\777",
        "\"a\"",
        "1",
        "0",
        ".5",
        "0x",
        "0xffffffffffffffff",
        "5m",
        "9999999999y",
        "bool",
        "or",
        "#",
        "\n",
        "(?:a{9}){9}",
    ];
    const GOOD: [&str; 4] = [
        "sum by (pod) (rate(errors_total{pod=~\"web-1|web-2\", a!='b'}[5m:1m] offset -5m)) / 2 > bool 0.05",
        "histogram_quantile(0.9, sum(rate(x_bucket[1h30m])) by (le)) and on(a, b) group_left(c) y @ 1603774568",
        "label_replace(up, \"a\", \"$1\", \"b\", \"(.*)\\\\d\") unless {__name__=\"x\"} or vector(-1e-9) ^ 0x1F",
        "topk(3, a[10s] @ end()) + fill(-23) b atan2 count_values(\"v\", `raw`)",
    ];
    let seed = rand::rng().random();
    println!("seed {seed}");
    let mut random = StdRng::seed_from_u64(seed);
    let mut pick = |below: usize| random.random_range(0..below);
    for round in 0..3000 {
        let expr = if round % 2 == 0 {
            let glue = ["", " "][pick(2)];
            (0..=pick(20)).map(|_| WORDS[pick(WORDS.len())]).collect::<Vec<_>>().join(glue)
        } else {
            let mut letters: Vec<char> = GOOD[pick(GOOD.len())].chars().collect();
            for _ in 0..=pick(4) {
                let (from, to) = (pick(letters.len()), pick(letters.len()));
                match pick(3) {
                    0 => letters[to] = letters[from],
                    1 => letters.insert(to, letters[from]),
                    _ => drop(letters.remove(to)),
                }
            }
            letters.into_iter().collect()
        };
        println!("{expr}");
        fault(&expr);
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
