use super::*;

#[test]
fn patterns_mean_what_they_mean_in_go() {
    for (pattern, text, matches) in [
        ("^\\w+$", "a_1", true),
        ("^\\w+$", "\u{e9}", false),
        ("^\\d$", "\u{663}", false),
        ("^[\\d.]+$", "1.2", true),
        ("^[\\W]$", "\u{e9}", true),
        ("^\\S+$", "a b", false),
        ("\\bx\\b", "\u{e9}x", true),
        ("^[[]$", "[", true),
        ("^[[:alpha:]]$", "a", true),
        ("^[]a]$", "]", true),
        ("^[^]a]$", "]", false),
        ("^[a&&b]$", "&", true),
        ("^\\\\w$", "\\w", true),
        ("^[a\\]]$", "]", true),
    ] {
        let read = Patterns::default().read(pattern).unwrap();
        assert_eq!(read.is_match(text), matches, "{pattern} {text}");
    }
}

#[test]
fn what_is_no_pattern_is_refused() {
    for (pattern, why) in [
        ("(a", PatternError::Unclosed),
        ("a\\", PatternError::Syntax),
        ("((((a{1,100}){1,100}){1,100}){1,100})", PatternError::TooLarge),
    ] {
        assert_eq!(Patterns::default().read(pattern).unwrap_err(), why, "{pattern}");
    }
}

#[test]
fn many_large_patterns_are_too_many() {
    let mut patterns = Patterns::default();
    let large = |number: usize| format!("{number}\\pL{{30}}");
    let read = (0..1000).take_while(|&number| patterns.read(&large(number)).is_ok()).count();
    assert!((1..MAX_BYTES / SIZES[1] + 1).contains(&read), "{read}");
    assert!(patterns.read(&large(0)).is_ok(), "the same again costs nothing");
}
