use super::{Hidden, Sealed, printable};

fn hiding(words: &[&str]) -> Hidden {
    let mut hidden = Hidden::default();
    for word in words {
        hidden.add(&Sealed::new(*word));
    }
    hidden
}

#[test]
fn a_sealed_text_is_not_shown() {
    let hidden = hiding(&["canary"]);
    assert_eq!(format!("{:?} {hidden:?}", Sealed::new("canary")).matches("canary").count(), 0);
}

#[test]
fn what_is_hidden_is_found_in_every_form() {
    let hidden = hiding(&["can/ary\"1", "two\nlines"]);
    for text in ["a can/ary\"1 b", "a can%2Fary%221 b", "a can/ary\\\"1 b", "a two\nlines b", "a two lines b"]
    {
        assert_eq!(hidden.tell(text, 100), "a *** b", "{text}");
    }
}

#[test]
fn a_word_inside_another_leaves_nothing_of_it() {
    assert_eq!(hiding(&["abc", "abcdef"]).tell("abcdef abc", 100), "*** ***");
    assert_eq!(hiding(&["abcdef", "abc"]).tell("abcdef abc", 100), "*** ***");
}

#[test]
fn an_empty_word_hides_nothing() {
    assert_eq!(hiding(&[""]).tell("text", 100), "text");
}

#[test]
fn a_word_at_the_cut_does_not_show_its_beginning() {
    assert_eq!(hiding(&["canary"]).tell("0123456canary", 10), "0123456***");
}

#[test]
fn a_text_is_one_short_line() {
    assert_eq!(printable("a\u{1b}[31m\n\n b\u{0}", 100), "a [31m b");
    assert_eq!(printable("éèà", 3), "éèà");
    assert_eq!(printable("éèàù", 3), "éè…");
}
