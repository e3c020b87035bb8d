use serde_json::json;

use super::*;

/// A field that holds bytes.
fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
    let length = u8::try_from(bytes.len()).unwrap();
    [&[number << 3 | 2, length], bytes].concat()
}

fn envelope(api_version: &str, kind: &str, raw: &[u8]) -> Vec<u8> {
    let names = [field(1, api_version.as_bytes()), field(2, kind.as_bytes())].concat();
    [MAGIC.to_vec(), field(1, &names), field(2, raw)].concat()
}

#[test]
fn a_config_map_is_read() {
    let metadata = [field(1, b"m"), field(2, b""), field(8, b"")].concat();
    let entry = [field(1, b"a"), field(2, b"1")].concat();
    let body = envelope("v1", "ConfigMap", &[field(1, &metadata), field(2, &entry)].concat());
    let expected =
        json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "m" }, "data": { "a": "1" } });
    assert_eq!(read(&body).unwrap(), expected);
}

#[test]
fn what_is_zero_and_was_set_stays() {
    // spec { replicas: 0 }
    let body = envelope("apps/v1", "StatefulSet", &field(2, &[1 << 3, 0]));
    assert_eq!(read(&body).unwrap()["spec"], json!({ "replicas": 0 }));
}

#[test]
fn what_is_no_message_is_refused() {
    assert_eq!(read(b"{}"), Err(ProtobufError::Magic));
    assert_eq!(read(&envelope("v1", "Nothing", &[])), Err(ProtobufError::Kind("v1/Nothing".to_owned())));
    assert_eq!(read(&envelope("v1", "ConfigMap", &[0x0a, 0x7f])), Err(ProtobufError::End));
    assert_eq!(read(&envelope("v1", "ConfigMap", &[0xff; 11])), Err(ProtobufError::End));
}

#[test]
fn no_body_makes_it_fall_over() {
    let body = envelope("v1", "Pod", &field(2, &field(2, &[field(1, b"x"), field(8, &[1, 2, 3])].concat())));
    for end in 0..body.len() {
        for byte in [0, 1, 0x7f, 0x80, 0xff] {
            let mut broken = body.clone();
            broken[end] = byte;
            let _ = read(&broken);
            let _ = read(&body[..end]);
        }
    }
}
