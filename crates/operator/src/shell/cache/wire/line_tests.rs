use super::{Line, Page};

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

#[test]
fn a_page_without_items_is_empty_in_each_of_the_servers_forms() {
    for items in ["", ",\"items\":[]", ",\"items\":null"] {
        let page = format!("{{\"metadata\":{{\"resourceVersion\":\"7\"}}{items}}}");
        let page: Page<'_> = serde_json::from_str(&page).expect("a page");
        assert_eq!((page.metadata.resource_version.as_str(), page.items.len()), ("7", 0), "{items}");
    }
}
