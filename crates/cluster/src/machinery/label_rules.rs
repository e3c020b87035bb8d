//! What keys and values of labels may be.

/// Longest name part of a label key, and longest label value, in characters.
pub(crate) const MAX_LABEL: usize = 63;
/// Longest prefix of a label key, in characters.
const MAX_PREFIX: usize = 253;

/// What is wrong with the key of a label or an annotation; `called` is how it is called there.
pub(crate) fn key_problems(key: &str, called: &str) -> Vec<String> {
    let (prefix, name) = match key.split_once('/') {
        Some((prefix, name)) => (Some(prefix), name),
        None => (None, key),
    };
    if name.contains('/') {
        return vec![format!(
            "{called} must consist of {QUALIFIED} with an optional DNS subdomain prefix and '/' (e.g. \
             'example.com/MyName')"
        )];
    }
    let mut problems = Vec::new();
    match prefix {
        Some("") => problems.push("prefix part must be non-empty".to_owned()),
        Some(prefix) if prefix.len() > MAX_PREFIX || !prefix.split('.').all(is_dns_label_of_any_length) => {
            problems.push(format!("prefix part {SUBDOMAIN_RULE}"));
        }
        _ => {}
    }
    if name.is_empty() {
        problems.push("name part must be non-empty".to_owned());
    } else if name.len() > MAX_LABEL {
        problems.push(format!("name part must be no more than {MAX_LABEL} bytes"));
    }
    if !is_qualified(name) {
        problems.push(format!("name part must consist of {QUALIFIED}"));
    }
    problems
}

const QUALIFIED: &str = "alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric \
    character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is \
    '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";

/// What is wrong with the value of a label.
pub(crate) fn value_problem(value: &str) -> Option<String> {
    if value.len() > MAX_LABEL {
        return Some(format!("must be no more than {MAX_LABEL} bytes"));
    }
    (!value.is_empty() && !is_qualified(value)).then(|| {
        "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must \
         start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for \
         validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
            .into()
    })
}

pub(crate) const SUBDOMAIN_RULE: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric \
    characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used \
    for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";

fn is_qualified(text: &str) -> bool {
    let edge = |byte: Option<u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric());
    edge(text.bytes().next())
        && edge(text.bytes().next_back())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'))
}

/// One part of a DNS name in lower case, whatever its length.
pub(crate) fn is_dns_label_of_any_length(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let edge = |byte: Option<u8>| byte.is_some_and(plain);
    edge(text.bytes().next())
        && edge(text.bytes().next_back())
        && text.bytes().all(|byte| plain(byte) || byte == b'-')
}
