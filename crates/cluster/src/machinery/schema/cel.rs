//! CEL rules: what a custom resource's schema demands of fields together, and of a change.
//!
//! They are judged by kube's subset of the language. A rule beyond it is refused with its definition, never skipped.

use std::sync::Arc;
use std::thread;

use kube::core::cel::{
    self, CompiledSchema, KubeCelExt, ValidationError,
    cel::{
        Context, ExecutionError, IdedExpr, Program,
        common::ast::{EntryExpr, Expr},
    },
    compile_schema,
};
use serde_json::{Map, Value};

use super::steps::{Loops, Steps};
use super::{Cause, List, Path, View};

#[cfg(test)]
#[path = "cel_tests.rs"]
mod tests;

const UNJUDGED: &str = "its rules could not be judged";
pub(super) const RULES: &str = "x-kubernetes-validations";
/// Longest expression, in bytes.
const MAX_EXPRESSION_BYTES: usize = 4096;
/// Most operators, dots and brackets of an expression: judging recurses along them.
const MAX_EXPRESSION_SIGNS: usize = 240;
/// Most brackets within brackets: the parser recurses along them, a dozen large calls for each.
const MAX_EXPRESSION_NESTING: usize = 32;
/// Stack for reading and judging, in bytes: several times what the largest expression takes without optimisation.
const STACK_BYTES: usize = 64 * 1024 * 1024;
/// Deepest schema below a rule, in levels: kube judges nothing below.
const MAX_SCHEMA_DEPTH: usize = 60;
/// What Kubernetes says when its own count of steps runs out.
const OUT_OF_STEPS: &str =
    "validation failed due to running out of cost budget, no further validation rules will be run";
/// What a rule may call its refusal.
const REASONS: [&str; 4] =
    ["FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired"];

/// What is wrong with the rules of a schema, which is found at `at`.
pub(crate) fn complaints(schema: &Value, at: &str) -> Vec<Cause> {
    let found = with_large_stack(|| {
        let mut reading = Reading { known: Context::default().with_all(), causes: Vec::new() };
        reading.check(schema, at, None);
        reading.causes
    });
    found.unwrap_or_else(|| vec![Cause::forbidden(at, UNJUDGED)])
}

/// Why an expression over these variables cannot be judged.
pub(crate) fn misread(expression: &str, variables: &[&'static str]) -> Option<String> {
    let judged = with_large_stack(|| {
        let reading = Reading { known: Context::default().with_all(), causes: Vec::new() };
        reading.misread(expression, &Value::Null, variables)
    });
    judged.unwrap_or_else(|| Some("the expression could not be read".to_owned()))
}

/// Runs on a thread of its own, since callers have stacks that a legal expression can exhaust. Nothing comes of work that
/// panics, as that of others on odd values may.
pub(crate) fn with_large_stack<T: Send>(work: impl FnOnce() -> T + Send) -> Option<T> {
    thread::scope(|scope| {
        let worker = thread::Builder::new().stack_size(STACK_BYTES).spawn_scoped(scope, work);
        worker.ok().and_then(|worker| worker.join().ok())
    })
}

/// Rules of one node, ready to be judged.
#[derive(Clone, Debug)]
pub(crate) struct Judge {
    rules: Option<Arc<CompiledSchema>>,
    loops: Loops,
}

impl Judge {
    /// Reads the rules of a schema's root; nothing where there are none.
    pub(super) fn read(schema: &Value) -> Option<Self> {
        let rules = schema.get(RULES)?.as_array().filter(|rules| !rules.is_empty())?;
        let compiled = with_large_stack(|| compile_schema(&Self::prepared(schema, rules)));
        let expressions = rules.iter().flat_map(|rule| [rule.get("rule"), rule.get("messageExpression")]);
        let expressions: Vec<&str> = expressions.flatten().filter_map(Value::as_str).collect();
        let loops = with_large_stack(|| Loops::of(&expressions)).unwrap_or(Loops::ENDLESS);
        Some(Judge { rules: compiled.map(Arc::new), loops })
    }

    /// The schema with the rules of its root only.
    fn prepared(schema: &Value, rules: &[Value]) -> Value {
        let reading = Reading { known: Context::default().with_all(), causes: Vec::new() };
        // Definitions with a rule that cannot be judged are refused; should one come here, it holds for nothing.
        let judged = |rule: &Value| match reading.complaint(rule, schema) {
            None => rule.clone(),
            Some(Complaint { why, .. }) => Value::Object(Map::from_iter([
                ("rule".to_owned(), "false".into()),
                ("message".to_owned(), why.into()),
            ])),
        };
        let rules = rules.iter().map(judged).collect();
        let mut schema = without_rules(schema);
        if let Some(fields) = schema.as_object_mut() {
            fields.insert(RULES.to_owned(), Value::Array(rules));
        }
        schema
    }

    /// Whether a rule is about a change.
    fn is_transition(&self, rule: &str) -> bool {
        self.rules
            .iter()
            .flat_map(|rules| &rules.validations)
            .flatten()
            .any(|found| found.rule.rule == rule && found.is_transition_rule)
    }
}

/// What the rules have against an object; `before` is what it replaces.
pub(super) fn judge(object: &Value, before: Option<&Value>, view: View<'_>) -> Vec<Cause> {
    let found = with_large_stack(|| {
        let mut findings = Findings::default();
        visit(object, before, false, view, &Path::default(), &mut findings);
        findings.causes
    });
    found.unwrap_or_else(|| vec![Cause::forbidden(super::validate::NOWHERE, UNJUDGED)])
}

#[derive(Default)]
struct Findings {
    causes: Vec<Cause>,
    steps: Steps,
}

impl Findings {
    /// Whether rules may still be judged; that they may not is found once.
    fn may_run(&mut self, loops: Loops, value: &Value) -> bool {
        let was_out = self.steps.are_out();
        let may_run = self.steps.pay(loops, value);
        if !may_run && !was_out {
            self.causes.push(Cause::invalid(super::validate::NOWHERE, &Value::Null, OUT_OF_STEPS));
        }
        may_run
    }
}

/// What did not change need not follow rules that have come since; `frozen` says so of everything around the value.
fn visit(
    value: &Value,
    before: Option<&Value>,
    frozen: bool,
    view: View<'_>,
    at: &Path,
    found: &mut Findings,
) {
    if value.is_null() {
        return;
    }
    let frozen = frozen || before == Some(value);
    if let Some(judge) = &view.node().rules.judge {
        let Some(rules) = &judge.rules else {
            found.causes.push(Cause::forbidden(at.to_string(), UNJUDGED));
            return;
        };
        if !found.may_run(judge.loops, value) {
            return;
        }
        let counts = |error: &&ValidationError| !frozen || judge.is_transition(&error.rule);
        if let Err(errors) = cel::validate_compiled(rules, value, before) {
            found.causes.extend(errors.iter().filter(counts).map(|error| cause(error, value, at)));
        }
    }
    match value {
        Value::Object(fields) => {
            for (name, field) in fields {
                let before = before.and_then(|before| before.get(name));
                if let Some(property) = view.property(name) {
                    visit(field, before, frozen, property, &at.field(name), found);
                } else if let Some(other) = view.other() {
                    visit(field, before, frozen, other, &at.key(name), found);
                }
            }
        }
        Value::Array(items) => {
            let Some(inner) = view.items() else { return };
            for (index, item) in items.iter().enumerate() {
                let before = before.and_then(|before| counterpart(item, before, &view.node().list));
                visit(item, before, frozen, inner, &at.index(index), found);
            }
        }
        _ => {}
    }
}

/// Items have a past only in lists that tell them apart by keys.
fn counterpart<'a>(item: &Value, before: &'a Value, list: &List) -> Option<&'a Value> {
    let List::Map(keys) = list else { return None };
    before.as_array()?.iter().find(|old| keys.iter().all(|key| old.get(key) == item.get(key)))
}

fn cause(error: &ValidationError, value: &Value, at: &Path) -> Cause {
    let at = at.to_string();
    let below = error.field_path.as_str();
    let field = match (at.is_empty(), below.is_empty(), below.starts_with(['.', '['])) {
        (_, true, _) => at,
        (true, ..) => below.trim_start_matches('.').to_owned(),
        (false, _, true) => format!("{at}{below}"),
        (false, _, false) => format!("{at}.{below}"),
    };
    let field = if field.is_empty() { super::validate::NOWHERE.to_owned() } else { field };
    let message = error.message.replace('\n', " ");
    let cause =
        |reason, words: &str| Cause { field: field.clone(), reason, message: format!("{words}{message}") };
    match error.reason.as_deref() {
        Some("FieldValueForbidden") => cause("FieldValueForbidden", "Forbidden: "),
        Some("FieldValueRequired") => cause("FieldValueRequired", "Required value: "),
        Some("FieldValueDuplicate") => {
            Cause { field, reason: "FieldValueDuplicate", message: "Duplicate value".to_owned() }
        }
        // What has fields or items is not shown, for it may be large; nor is what a path leads away from.
        _ if value.is_object() || value.is_array() || !below.is_empty() => {
            cause("FieldValueInvalid", "Invalid value: ")
        }
        _ => cause("FieldValueInvalid", &format!("Invalid value: {value}: ")),
    }
}

/// A schema without the rules and defaults in it.
fn without_rules(schema: &Value) -> Value {
    let Value::Object(fields) = schema else { return schema.clone() };
    let each = |value: &Value| match value {
        Value::Object(named) => {
            Value::Object(named.iter().map(|(name, value)| (name.clone(), without_rules(value))).collect())
        }
        Value::Array(all) => Value::Array(all.iter().map(without_rules).collect()),
        other => other.clone(),
    };
    let kept = fields.iter().filter(|(name, _)| !matches!(name.as_str(), RULES | "default"));
    let field = |(name, value): (&String, &Value)| {
        let value = match name.as_str() {
            "properties" | "allOf" | "anyOf" | "oneOf" => each(value),
            "items" | "additionalProperties" | "not" => without_rules(value),
            _ => value.clone(),
        };
        (name.clone(), value)
    };
    Value::Object(kept.map(field).collect())
}

/// The schemas directly inside a schema, each with where it is found.
fn inner(schema: &Value) -> Vec<(String, &Value)> {
    let named = schema.get("properties").and_then(Value::as_object).into_iter().flatten();
    let named = named.map(|(name, schema)| (format!("properties[{name}]"), schema));
    let single = |name: &'static str| {
        schema.get(name).filter(|inner| inner.is_object()).map(|inner| (name.to_owned(), inner))
    };
    let listed = ["allOf", "anyOf", "oneOf"].into_iter().flat_map(|name| {
        let all = schema.get(name).and_then(Value::as_array).into_iter().flatten();
        all.enumerate().map(move |(index, inner)| (format!("{name}[{index}]"), inner))
    });
    named
        .chain(single("items"))
        .chain(single("additionalProperties"))
        .chain(listed)
        .chain(single("not"))
        .collect()
}

fn depth(schema: &Value) -> usize {
    1 + inner(schema).into_iter().map(|(_, inner)| depth(inner)).max().unwrap_or_default()
}

/// What is wrong with a field of a rule.
struct Complaint {
    field: &'static str,
    why: String,
    kind: Wrong,
}

enum Wrong {
    Missing,
    Unsupported,
    Invalid,
}

/// Whether a path such as `.spec.size` or `['a']` names something in a schema.
fn leads_somewhere(path: &str, schema: &Value) -> bool {
    let names = path.split(['.', '[', ']', '\'']).filter(|name| !name.is_empty());
    let mut schema = Some(schema);
    for name in names {
        let within = schema.and_then(|schema| schema.get("properties")).and_then(|all| all.get(name));
        let mapped =
            || schema.and_then(|schema| schema.get("additionalProperties")).filter(|inner| inner.is_object());
        schema = within.or_else(mapped);
    }
    schema.is_some() && path.starts_with(['.', '['])
}

/// What is known of the type of an expression.
enum Shape<'a> {
    Known(&'a Value),
    Unknown,
}

/// A field that an expression selects and that the schema of its variables does not have.
fn undefined(expression: &IdedExpr, schema: &Value) -> Option<String> {
    let within = |parts: &[&IdedExpr]| parts.iter().find_map(|part| undefined(part, schema));
    match &expression.expr {
        Expr::Unspecified | Expr::Literal(_) | Expr::Ident(_) | Expr::Struct(_) => None,
        Expr::Select(_) => shape(expression, schema).err(),
        Expr::Call(call) => {
            call.target.as_deref().into_iter().chain(&call.args).find_map(|part| undefined(part, schema))
        }
        Expr::List(list) => list.elements.iter().find_map(|element| undefined(element, schema)),
        Expr::Map(map) => map.entries.iter().find_map(|entry| match &entry.expr {
            EntryExpr::MapEntry(entry) => within(&[&entry.key, &entry.value]),
            EntryExpr::StructField(field) => undefined(&field.value, schema),
        }),
        Expr::Comprehension(all) => {
            within(&[&all.iter_range, &all.accu_init, &all.loop_cond, &all.loop_step, &all.result])
        }
    }
}

fn shape<'a>(expression: &IdedExpr, schema: &'a Value) -> Result<Shape<'a>, String> {
    match &expression.expr {
        Expr::Ident(name) if name == "self" || name == "oldSelf" => Ok(Shape::Known(schema)),
        Expr::Select(select) => match shape(&select.operand, schema)? {
            Shape::Unknown => Ok(Shape::Unknown),
            Shape::Known(outer) => selected(outer, &select.field),
        },
        _ => undefined(expression, schema).map_or(Ok(Shape::Unknown), Err),
    }
}

fn selected<'a>(outer: &'a Value, field: &str) -> Result<Shape<'a>, String> {
    let flag = |name: &str| outer.get(name) == Some(&Value::Bool(true));
    let given = matches!(field, "metadata" | "apiVersion" | "kind") || field.contains("__");
    let is_scalar = matches!(text_of(outer, "type"), "string" | "integer" | "number" | "boolean" | "array");
    let found = outer.get("properties").and_then(|all| all.get(field));
    if let Some(found) = found {
        return Ok(Shape::Known(found));
    }
    if given || flag("x-kubernetes-preserve-unknown-fields") || flag("x-kubernetes-int-or-string") {
        return Ok(Shape::Unknown);
    }
    match outer.get("additionalProperties") {
        Some(inner) if inner.is_object() && !is_scalar => Ok(Shape::Known(inner)),
        Some(_) if !is_scalar => Ok(Shape::Unknown),
        _ => Err(field.to_owned()),
    }
}

fn text_of<'a>(schema: &'a Value, field: &str) -> &'a str {
    schema.get(field).and_then(Value::as_str).unwrap_or_default()
}

/// A look at rules, with the functions that are known.
struct Reading {
    known: Context<'static>,
    causes: Vec<Cause>,
}

impl Reading {
    /// `pastless` is the list within which items have no past.
    fn check(&mut self, schema: &Value, at: &str, pastless: Option<&str>) {
        let rules = schema.get(RULES).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        for (index, rule) in rules.iter().enumerate() {
            let place = format!("{at}.{RULES}[{index}]");
            if let Some(Complaint { field, why, kind }) = self.complaint(rule, schema) {
                let (shown, field) = (rule.get(field).unwrap_or(&Value::Null), format!("{place}.{field}"));
                self.causes.push(match kind {
                    Wrong::Missing => Cause::required(field, &why),
                    Wrong::Unsupported => Cause::unsupported(field, shown, &REASONS),
                    Wrong::Invalid => Cause::invalid(field, shown, &why),
                });
            } else if let Some(list) = pastless.filter(|_| uses_old(rule)) {
                let why = format!(
                    "oldSelf cannot be used on the uncorrelatable portion of the schema within {list}"
                );
                let shown = rule.get("rule").unwrap_or(&Value::Null);
                self.causes.push(Cause::invalid(format!("{place}.rule"), shown, &why));
            } else if depth(schema) > MAX_SCHEMA_DEPTH {
                let why =
                    format!("this server judges no rules of schemas deeper than {MAX_SCHEMA_DEPTH} levels");
                self.causes.push(Cause::forbidden(place, &why));
            }
        }
        for (step, inner) in inner(schema) {
            let place = format!("{at}.{step}");
            let is_keyed = schema.get("x-kubernetes-list-type").and_then(Value::as_str) == Some("map");
            let pastless = pastless.or((step == "items" && !is_keyed).then_some(at));
            self.check(inner, &place, pastless);
        }
    }

    /// Why a rule of a schema cannot be judged.
    fn complaint(&self, rule: &Value, schema: &Value) -> Option<Complaint> {
        let text = |field| rule.get(field).and_then(Value::as_str);
        let complain = |field, why: &str, kind| Some(Complaint { field, why: why.to_owned(), kind });
        let Some(expression) = text("rule").filter(|rule| !rule.trim().is_empty()) else {
            return complain("rule", "rule is not specified", Wrong::Missing);
        };
        if rule.get("optionalOldSelf").and_then(Value::as_bool) == Some(true) {
            let why = "this server does not judge rules with an optional oldSelf";
            return complain("optionalOldSelf", why, Wrong::Invalid);
        }
        if text("reason").is_some_and(|reason| !REASONS.contains(&reason)) {
            return complain("reason", "", Wrong::Unsupported);
        }
        if text("message").is_some_and(|message| message.contains('\n')) {
            return complain("message", "must not contain line breaks", Wrong::Invalid);
        }
        if text("fieldPath").is_some_and(|path| !leads_somewhere(path, schema)) {
            return complain("fieldPath", "must be a valid path", Wrong::Invalid);
        }
        if let Err(error) = serde_json::from_value::<cel::Rule>(rule.clone()) {
            return complain("rule", &error.to_string(), Wrong::Invalid);
        }
        let because = |field, expression| {
            let why = self.misread(expression, schema, &["self", "oldSelf"])?;
            Some(Complaint { field, why, kind: Wrong::Invalid })
        };
        because("rule", expression)
            .or_else(|| text("messageExpression").and_then(|message| because("messageExpression", message)))
    }

    /// Why an expression cannot be judged.
    fn misread(&self, expression: &str, schema: &Value, variables: &[&'static str]) -> Option<String> {
        let signs = expression.bytes().filter(u8::is_ascii_punctuation).count();
        let is_small = expression.len() <= MAX_EXPRESSION_BYTES
            && signs <= MAX_EXPRESSION_SIGNS
            && nesting(expression) <= MAX_EXPRESSION_NESTING;
        if !is_small {
            return Some(format!(
                "this server judges expressions of at most {MAX_EXPRESSION_BYTES} bytes, of which at most \
                 {MAX_EXPRESSION_SIGNS} are punctuation, and of brackets at most {MAX_EXPRESSION_NESTING} deep"
            ));
        }
        match Program::compile(expression) {
            Err(error) => Some(format!("compilation failed: {error}")),
            Ok(program) => self
                .stranger(program.expression(), &mut variables.to_vec())
                .map(|name| format!("compilation failed: {name} is not known to this server"))
                .or_else(|| {
                    let field = undefined(program.expression(), schema)?;
                    Some(format!("compilation failed: undefined field '{field}'"))
                }),
        }
    }

    /// A name that means nothing here. `bound` are the variables.
    fn stranger<'a>(&self, expression: &'a IdedExpr, bound: &mut Vec<&'a str>) -> Option<String> {
        match &expression.expr {
            Expr::Unspecified | Expr::Literal(_) => None,
            Expr::Ident(name) => {
                let is_known = name.starts_with('@') || bound.contains(&name.as_str());
                (!is_known).then(|| name.clone())
            }
            Expr::Select(select) => self.stranger(&select.operand, bound),
            Expr::Call(call) => {
                let inside = |target: Option<&'a IdedExpr>, bound: &mut Vec<&'a str>| {
                    target.into_iter().chain(&call.args).find_map(|part| self.stranger(part, bound))
                };
                let is_operator = !call.func_name.starts_with(|first: char| first.is_ascii_alphabetic());
                match call.target.as_deref() {
                    Some(IdedExpr { expr: Expr::Ident(room), .. })
                        if !bound.contains(&room.as_str())
                            && self.is_function(&format!("{room}.{}", call.func_name)) =>
                    {
                        inside(None, bound)
                    }
                    target if is_operator || self.is_function(&call.func_name) => inside(target, bound),
                    _ => Some(format!("{}()", call.func_name)),
                }
            }
            Expr::List(list) => list.elements.iter().find_map(|element| self.stranger(element, bound)),
            Expr::Map(map) => map.entries.iter().find_map(|entry| match &entry.expr {
                EntryExpr::MapEntry(entry) => {
                    self.stranger(&entry.key, bound).or_else(|| self.stranger(&entry.value, bound))
                }
                EntryExpr::StructField(field) => self.stranger(&field.value, bound),
            }),
            Expr::Struct(message) => Some(message.type_name.clone()),
            Expr::Comprehension(all) => {
                let outside = [&all.iter_range, &all.accu_init];
                let outside = outside.into_iter().find_map(|part| self.stranger(part, bound));
                let outer = bound.len();
                bound.extend([all.iter_var.as_str(), &all.accu_var]);
                bound.extend(all.iter_var2.as_deref());
                let inside = [&all.loop_cond, &all.loop_step, &all.result];
                let inside = inside.into_iter().find_map(|part| self.stranger(part, bound));
                bound.truncate(outer);
                outside.or(inside)
            }
        }
    }

    /// A call without arguments fails, but of what does not exist it says so.
    fn is_function(&self, name: &str) -> bool {
        let call = Program::compile(&format!("{name}()"));
        call.is_ok_and(|call| {
            !matches!(call.execute(&self.known), Err(ExecutionError::UndeclaredReference(_)))
        })
    }
}

fn uses_old(rule: &Value) -> bool {
    let rule = rule.get("rule").and_then(Value::as_str).unwrap_or_default();
    Program::compile(rule).is_ok_and(|program| program.references().has_variable("oldSelf"))
}

/// The deepest brackets, counting those in strings, which makes it a little too deep rather than too shallow.
fn nesting(expression: &str) -> usize {
    let (mut open, mut deepest) = (0_usize, 0);
    for sign in expression.bytes() {
        match sign {
            b'(' | b'[' | b'{' => open += 1,
            b')' | b']' | b'}' => open = open.saturating_sub(1),
            _ => {}
        }
        deepest = deepest.max(open);
    }
    deepest
}
