use std::fmt::Write;

use serde_json::Value;

use super::{Atom, Container, Stop, Token, Tokens};

/// The tokens of a document that comes in pieces of this size, in a line.
fn line(document: &str, piece: usize) -> Result<String, Stop> {
    let mut line = String::new();
    let mut tokens = Tokens::new();
    let mut take = |token: Token<'_>| {
        match token {
            Token::Begin(Container::Object) => line.push('{'),
            Token::Begin(Container::Array) => line.push('['),
            Token::End => line.push('.'),
            Token::Key(text) => write!(line, "{}:", text.decode().unwrap()).unwrap(),
            Token::Atom(Atom::Text(text)) => write!(line, "{:?} ", text.decode().unwrap()).unwrap(),
            Token::Atom(Atom::Number(number)) => write!(line, "{number} ").unwrap(),
            Token::Atom(Atom::Bool(truth)) => write!(line, "{truth} ").unwrap(),
            Token::Atom(Atom::Null) => line.push_str("null "),
        }
        Ok(())
    };
    for piece in document.as_bytes().chunks(piece) {
        tokens.feed(piece, &mut take)?;
    }
    tokens.end()?;
    Ok(line)
}

#[test]
fn a_document_gives_the_same_tokens_in_pieces_of_any_size() {
    let document =
        r#" {"a":[1,-2.5e3,"x\"\\\u00e9é\ud83d\ude00"], "b" : {}, "c":[[],{"d":null}],"e":true ,"f":false} "#;
    let expected = "{a:[1 -2500 \"x\\\"\\\\éé😀\" .b:{.c:[[.{d:null ..e:true f:false .";
    for piece in [1, 2, 3, 7, document.len()] {
        assert_eq!(line(document, piece).as_deref(), Ok(expected), "{piece}");
    }
}

/// Whatever serde_json accepts is accepted, and nothing else.
#[test]
fn what_is_no_json_is_refused() {
    for document in [
        "{}",
        "[]",
        "1",
        "\"\"",
        "null",
        "[1]",
        "{\"a\":1}",
        "",
        " ",
        "{",
        "[",
        "\"",
        "{]",
        "[}",
        "[1,]",
        "{,}",
        "{\"a\"}",
        "{\"a\":}",
        "{\"a\":1,}",
        "{a:1}",
        "[1 2]",
        "[1,,2]",
        "tru",
        "truex",
        "nul",
        "01",
        "+1",
        "1.",
        ".5",
        "--1",
        "[1]]",
        "{} {}",
        "[\"a\" \"b\"]",
        "inf",
        "NaN",
        "{\"a\" 1}",
        "{1:2}",
    ] {
        let accepted = serde_json::from_str::<Value>(document).is_ok();
        // A document is an object or an array here; what stands alone has no end to see.
        let alone = accepted && !document.starts_with(['{', '[', '"']);
        assert_eq!(line(document, 1).is_ok(), accepted && !alone, "{document:?}");
    }
}

#[test]
fn depth_and_the_length_of_what_is_kept_are_bounded() {
    assert!(line(&format!("{}{}", "[".repeat(32), "]".repeat(32)), 5).is_ok());
    assert_eq!(line(&"[".repeat(1 << 20), 4096), Err(Stop::Malformed("it nests too deeply")));
    assert!(line(&format!("[{}]", "1".repeat(100)), 9).is_err());
    let mut kept = (0, None);
    let mut take = |token: Token<'_>| {
        if let Token::Atom(Atom::Text(text)) = token {
            kept = (text.raw().len(), text.decode());
        }
        Ok(())
    };
    let mut tokens = Tokens::new();
    tokens.feed(format!("[\"{}\"]", "secret".repeat(5000)).as_bytes(), &mut take).unwrap();
    assert_eq!(kept, (4096, Some("a text of more than 4 KiB".to_owned())), "nothing of it is repeated");
    assert!(tokens.buffer.capacity() <= 8192, "{}", tokens.buffer.capacity());
}

#[test]
fn reading_stops_where_the_reader_has_enough() {
    let mut seen = 0;
    let mut take = |_: Token<'_>| {
        seen += 1;
        if seen == 3 { Err(Stop::Enough) } else { Ok(()) }
    };
    assert_eq!(Tokens::new().feed(b"[1,2,3,4", &mut take), Err(Stop::Enough));
    assert_eq!(seen, 3);
}
