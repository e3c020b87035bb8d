//! The patches as their RFCs tell them, in the plainest way.

use serde_json::Value;

/// RFC 7396, section 2.
pub(crate) fn merge(target: Value, patch: &Value) -> Value {
    let Value::Object(patch) = patch else { return patch.clone() };
    let mut target = match target {
        Value::Object(fields) => fields,
        _ => serde_json::Map::new(),
    };
    for (name, value) in patch {
        if value.is_null() {
            target.remove(name);
        } else {
            let before = target.remove(name).unwrap_or(Value::Null);
            target.insert(name.clone(), merge(before, value));
        }
    }
    Value::Object(target)
}

/// RFC 6902; nothing where a patch does not apply, or is about the whole document.
pub(crate) fn json(document: &Value, operations: &Value) -> Option<Value> {
    let mut document = document.clone();
    for operation in operations.as_array()? {
        let text = |name: &str| operation.get(name)?.as_str();
        let path = tokens(text("path")?)?;
        match text("op")? {
            "add" => add(&mut document, &path, operation.get("value")?.clone())?,
            "remove" => drop(remove(&mut document, &path)?),
            "replace" => {
                remove(&mut document, &path)?;
                add(&mut document, &path, operation.get("value")?.clone())?;
            }
            "move" => {
                let from = tokens(text("from")?)?;
                // Nothing moves into itself.
                if path.starts_with(&from) && path != from {
                    return None;
                }
                let moved = remove(&mut document, &from)?;
                add(&mut document, &path, moved)?;
            }
            "copy" => {
                let copied = get(&document, &tokens(text("from")?)?)?.clone();
                add(&mut document, &path, copied)?;
            }
            "test" => (get(&document, &path)? == operation.get("value")?).then_some(())?,
            _ => return None,
        }
    }
    Some(document)
}

/// RFC 6901; the whole document is left out, which Kubernetes does not let be patched.
fn tokens(path: &str) -> Option<Vec<String>> {
    let rest = path.strip_prefix('/')?;
    Some(rest.split('/').map(|token| token.replace("~1", "/").replace("~0", "~")).collect())
}

fn index(token: &str, most: usize) -> Option<usize> {
    let is_number =
        token == "0" || !token.starts_with('0') && token.bytes().all(|byte| byte.is_ascii_digit());
    token.parse().ok().filter(|&index| is_number && index <= most)
}

fn get<'a>(document: &'a Value, path: &[String]) -> Option<&'a Value> {
    path.iter().try_fold(document, |value, token| match value {
        Value::Object(fields) => fields.get(token),
        Value::Array(items) => items.get(index(token, items.len())?),
        _ => None,
    })
}

fn parent<'a, 'b>(document: &'a mut Value, path: &'b [String]) -> Option<(&'a mut Value, &'b str)> {
    let (last, above) = path.split_last()?;
    let parent = above.iter().try_fold(document, |value, token| match value {
        Value::Object(fields) => fields.get_mut(token),
        Value::Array(items) => index(token, items.len()).and_then(|index| items.get_mut(index)),
        _ => None,
    })?;
    Some((parent, last))
}

fn add(document: &mut Value, path: &[String], value: Value) -> Option<()> {
    match parent(document, path)? {
        (Value::Object(fields), name) => drop(fields.insert(name.to_owned(), value)),
        (Value::Array(items), "-") => items.push(value),
        (Value::Array(items), place) => items.insert(index(place, items.len())?, value),
        _ => return None,
    }
    Some(())
}

fn remove(document: &mut Value, path: &[String]) -> Option<Value> {
    match parent(document, path)? {
        (Value::Object(fields), name) => fields.remove(name),
        (Value::Array(items), place) => {
            let place = index(place, items.len())?;
            (place < items.len()).then(|| items.remove(place))
        }
        _ => None,
    }
}
