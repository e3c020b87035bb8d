use super::Line;

#[test]
fn a_line_is_taken_apart_in_the_servers_form_and_in_any_other() {
    let forms = [
        "{\"type\":\"ADDED\",\"object\":{\"a\":\"}\"}}\n",
        "{ \"object\": {\"a\":\"}\"}, \"type\": \"ADDED\" }",
    ];
    for form in forms {
        let line = Line::read(form.as_bytes()).expect("an event");
        assert_eq!((line.kind.as_ref(), line.object), ("ADDED", "{\"a\":\"}\"}"), "{form}");
    }
    for broken in ["", "null", "{\"type\":1}", "{\"object\":{}}", "\u{fffd}"] {
        assert!(Line::read(broken.as_bytes()).is_err(), "{broken:?}");
    }
    assert!(Line::read(&[b'{', 0xff, b'}']).is_err());
}
