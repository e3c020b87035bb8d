//! Conditions under which a webhook wants to be asked: CEL over the request and its objects.

use std::sync::Arc;

use kube::core::cel::KubeCelExt;
use kube::core::cel::cel::{Context, Program, Value as Cel};
use serde_json::Value;

use super::super::object::{self, text};
use super::super::schema::cel;

/// What an expression may speak of.
const VARIABLES: [&str; 3] = ["object", "oldObject", "request"];

/// Why an expression cannot be judged here.
pub(crate) fn complaint(expression: &str) -> Option<String> {
    cel::misread(expression, &VARIABLES)
}

/// Whether all conditions of a webhook hold for a review; the error is what a refusal says.
pub(super) fn hold(hook: &Value, review: &Value) -> Result<bool, String> {
    let conditions = object::list(hook, "/matchConditions");
    if conditions.is_empty() {
        return Ok(true);
    }
    let request = review.get("request").unwrap_or(&Value::Null);
    let part = |name: &str| request.get(name).unwrap_or(&Value::Null);
    let judged = cel::with_large_stack(|| {
        let mut wrong = Ok(true);
        for condition in conditions {
            let mut context = Context::default().with_all();
            for (name, value) in
                [("object", part("object")), ("oldObject", part("oldObject")), ("request", request)]
            {
                context.add_variable_from_value(name, value_of(value));
            }
            let expression = text(condition, "/expression");
            let said = Program::compile(expression).map_err(|error| error.to_string());
            let said = said.and_then(|program| program.execute(&context).map_err(|error| error.to_string()));
            match said {
                Ok(Cel::Bool(true)) => {}
                // One that does not hold is enough, whatever is wrong with others.
                Ok(Cel::Bool(false)) => return Ok(false),
                Ok(_) => wrong = Err(failure(expression, "no boolean")),
                Err(why) if wrong.is_ok() => wrong = Err(failure(expression, &why)),
                Err(_) => {}
            }
        }
        wrong
    });
    judged.unwrap_or_else(|| Err("the conditions could not be judged".to_owned()))
}

fn failure(expression: &str, why: &str) -> String {
    // Errors are told as Kubernetes' own interpreter tells them.
    let why = why.replacen("No such key", "no such key", 1);
    format!("expression '{expression}' resulted in error: {why}")
}

fn value_of(value: &Value) -> Cel {
    match value {
        Value::Null => Cel::Null,
        Value::Bool(flag) => Cel::Bool(*flag),
        Value::Number(number) => match (number.as_i64(), number.as_f64()) {
            (Some(whole), _) => Cel::Int(whole),
            (None, Some(broken)) => Cel::Float(broken),
            (None, None) => Cel::Null,
        },
        Value::String(text) => Cel::String(Arc::new(text.clone())),
        Value::Array(items) => Cel::List(Arc::new(items.iter().map(value_of).collect())),
        Value::Object(fields) => {
            let fields: std::collections::HashMap<String, Cel> =
                fields.iter().map(|(name, value)| (name.clone(), value_of(value))).collect();
            Cel::Map(fields.into())
        }
    }
}
