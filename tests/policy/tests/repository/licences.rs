//! Judges SPDX licence expressions: `AND` binds tighter than `OR`, a `/` is an old spelling of `OR`, and
//! `WITH` makes one licence of its two sides.

/// Whether the allow list suffices to use something under `expression`, or what of it was not understood.
pub(crate) fn allowed(expression: &str, allow: &[String]) -> Result<bool, String> {
    let spaced = expression.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
    let mut words = spaced.split_whitespace().peekable();
    let verdict = any(&mut words, allow)?;
    words.next().map_or(Ok(verdict), |word| Err(format!("unexpected {word}")))
}

type Words<'a> = std::iter::Peekable<std::str::SplitWhitespace<'a>>;

fn any(words: &mut Words, allow: &[String]) -> Result<bool, String> {
    let mut verdict = all(words, allow)?;
    while words.next_if_eq(&"OR").is_some() {
        verdict |= all(words, allow)?;
    }
    Ok(verdict)
}

fn all(words: &mut Words, allow: &[String]) -> Result<bool, String> {
    let mut verdict = one(words, allow)?;
    while words.next_if_eq(&"AND").is_some() {
        verdict &= one(words, allow)?;
    }
    Ok(verdict)
}

fn one(words: &mut Words, allow: &[String]) -> Result<bool, String> {
    let word = words.next().ok_or("unexpected end")?;
    if word == "(" {
        let verdict = any(words, allow)?;
        return words.next_if_eq(&")").map(|_| verdict).ok_or_else(|| "missing )".to_owned());
    }
    let mut licence = word.to_owned();
    if words.next_if_eq(&"WITH").is_some() {
        let exception = words.next().ok_or("unexpected end")?;
        licence = format!("{licence} WITH {exception}");
    }
    Ok(allow.contains(&licence))
}

#[test]
fn expressions_are_judged_as_spdx_says() {
    let allow = ["MIT", "ISC", "Apache-2.0 WITH LLVM-exception"].map(str::to_owned);
    for (expression, verdict) in [
        ("MIT", Some(true)),
        ("GPL-3.0-only", Some(false)),
        ("GPL-3.0-only OR MIT", Some(true)),
        ("GPL-3.0-only/MIT", Some(true)),
        ("GPL-3.0-only AND MIT", Some(false)),
        ("ISC AND MIT", Some(true)),
        ("MIT OR ISC AND GPL-3.0-only", Some(true)),
        ("(MIT OR ISC) AND GPL-3.0-only", Some(false)),
        ("(MIT OR GPL-3.0-only) AND ISC", Some(true)),
        ("Apache-2.0 WITH LLVM-exception", Some(true)),
        ("Apache-2.0", Some(false)),
        ("MIT WITH LLVM-exception", Some(false)),
        ("", None),
        ("MIT OR", None),
        ("(MIT", None),
        ("MIT ISC", None),
    ] {
        assert_eq!(allowed(expression, &allow).ok(), verdict, "{expression:?}");
    }
}
