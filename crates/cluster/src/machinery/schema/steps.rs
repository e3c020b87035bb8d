//! How long rules may run: loops within loops over an object's lists.

use kube::core::cel::cel::{
    IdedExpr, Program,
    common::ast::{EntryExpr, Expr},
};
use serde_json::Value;

/// Steps that the rules of one object may take together: the library that judges them counts none, so they are
/// estimated. Three loops over a hundred items each; some seconds without optimisation.
const MAX_STEPS: u64 = 1_000_000;
/// Functions that make lists of texts.
const SPLITTING: [&str; 2] = ["split(", "findAll("];

/// The loops of rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Loops {
    /// How many are within each other.
    within: u32,
    /// Whether they may go over the letters of a text.
    of_letters: bool,
}

impl Loops {
    /// Those of what could not be read.
    pub(super) const ENDLESS: Loops = Loops { within: u32::MAX, of_letters: true };

    /// Those of the worst of some expressions.
    pub(super) fn of(expressions: &[&str]) -> Self {
        let within =
            |expression: &&str| Program::compile(expression).map_or(0, |program| loops(program.expression()));
        let of_letters = |expression: &&str| SPLITTING.iter().any(|function| expression.contains(function));
        Loops {
            within: expressions.iter().map(within).max().unwrap_or_default(),
            of_letters: expressions.iter().any(of_letters),
        }
    }
}

/// What is left of the steps.
pub(super) struct Steps(u64);

impl Default for Steps {
    fn default() -> Self {
        Steps(MAX_STEPS)
    }
}

impl Steps {
    pub(super) fn are_out(&self) -> bool {
        self.0 == 0
    }

    /// Takes off what loops over a value could need; false if that is not left.
    pub(super) fn pay(&mut self, loops: Loops, value: &Value) -> bool {
        let steps =
            if loops.within == 0 { 1 } else { longest(value, loops.of_letters).saturating_pow(loops.within) };
        let left = self.0.checked_sub(steps).filter(|_| !self.are_out());
        self.0 = left.unwrap_or_default();
        left.is_some()
    }
}

/// The most that one loop could go over: the fields of an object, the items of a list, the letters of a text.
fn longest(value: &Value, of_letters: bool) -> u64 {
    let inner = |value| longest(value, of_letters);
    let (own, inner) = match value {
        Value::Object(fields) => (fields.len(), fields.values().map(inner).max()),
        Value::Array(items) => (items.len(), items.iter().map(inner).max()),
        Value::String(text) if of_letters => (text.len(), None),
        _ => (1, None),
    };
    u64::try_from(own).unwrap_or(u64::MAX).max(inner.unwrap_or_default())
}

/// How many loops an expression runs within each other.
fn loops(expression: &IdedExpr) -> u32 {
    let most = |parts: &[&IdedExpr]| parts.iter().map(|part| loops(part)).max().unwrap_or_default();
    match &expression.expr {
        Expr::Unspecified | Expr::Literal(_) | Expr::Ident(_) | Expr::Struct(_) => 0,
        Expr::Select(select) => loops(&select.operand),
        Expr::Call(call) => {
            call.target.as_deref().into_iter().chain(&call.args).map(loops).max().unwrap_or_default()
        }
        Expr::List(list) => list.elements.iter().map(loops).max().unwrap_or_default(),
        Expr::Map(map) => {
            let entry = |entry: &EntryExpr| match entry {
                EntryExpr::MapEntry(entry) => most(&[&entry.key, &entry.value]),
                EntryExpr::StructField(field) => loops(&field.value),
            };
            map.entries.iter().map(|inner| entry(&inner.expr)).max().unwrap_or_default()
        }
        Expr::Comprehension(all) => {
            let around = most(&[&all.iter_range, &all.accu_init, &all.result]);
            around.max(1 + most(&[&all.loop_cond, &all.loop_step]))
        }
    }
}
