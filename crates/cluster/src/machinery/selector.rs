//! Selecting objects by label, from the text of a query or the JSON of an object.

use std::collections::BTreeSet;

use serde_json::Value;

use super::label_rules::{key_problems, value_problem};

/// A label selector: all requirements must hold; one without any matches everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selector {
    requirements: Vec<Requirement>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Requirement {
    key: String,
    test: Test,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Test {
    Equals(String),
    Differs(String),
    In(Vec<String>),
    NotIn(Vec<String>),
    Exists,
    DoesNotExist,
    GreaterThan(i64),
    LessThan(i64),
}

/// Why a selector cannot be read, in Kubernetes' words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SelectorError(pub(super) String);

impl Selector {
    /// Reads the text of a query, such as `app=db,tier in (a, b),!old`.
    pub fn parse(text: &str) -> Result<Self, SelectorError> {
        Parser { tokens: tokens(text), at: 0 }.selector()
    }

    /// Reads a `LabelSelector` object. What it does not understand matches nothing, since it was validated before.
    pub fn from_json(selector: &Value) -> Option<Self> {
        let mut requirements = Vec::new();
        for (key, value) in selector.get("matchLabels").and_then(Value::as_object).into_iter().flatten() {
            requirements
                .push(Requirement { key: key.clone(), test: Test::Equals(value.as_str()?.to_owned()) });
        }
        for expression in selector.get("matchExpressions").and_then(Value::as_array).into_iter().flatten() {
            let key = expression.get("key")?.as_str()?.to_owned();
            let values = || {
                let values = expression.get("values").and_then(Value::as_array).into_iter().flatten();
                values.map(|value| value.as_str().map(str::to_owned)).collect::<Option<Vec<_>>>()
            };
            let test = match expression.get("operator")?.as_str()? {
                "In" => Test::In(values()?),
                "NotIn" => Test::NotIn(values()?),
                "Exists" => Test::Exists,
                "DoesNotExist" => Test::DoesNotExist,
                "Gt" => Test::GreaterThan(values()?.first()?.parse().ok()?),
                "Lt" => Test::LessThan(values()?.first()?.parse().ok()?),
                _ => return None,
            };
            requirements.push(Requirement { key, test });
        }
        Some(Selector { requirements })
    }

    /// Whether there is nothing to ask for.
    pub fn is_empty(&self) -> bool {
        self.requirements.is_empty()
    }

    /// Whether an object's labels satisfy it.
    pub fn matches(&self, object: &Value) -> bool {
        self.matches_labels(object.pointer("/metadata/labels").unwrap_or(&Value::Null))
    }

    /// Whether labels, a JSON object, satisfy it.
    pub fn matches_labels(&self, labels: &Value) -> bool {
        self.requirements.iter().all(|requirement| {
            let value = labels.get(&requirement.key).and_then(Value::as_str);
            let number = || value.and_then(|value| value.parse::<i64>().ok());
            match &requirement.test {
                Test::Equals(wanted) => value == Some(wanted),
                Test::Differs(unwanted) => value != Some(unwanted),
                Test::In(values) => value.is_some_and(|value| values.iter().any(|one| one == value)),
                Test::NotIn(values) => value.is_none_or(|value| values.iter().all(|one| one != value)),
                Test::Exists => value.is_some(),
                Test::DoesNotExist => value.is_none(),
                Test::GreaterThan(bound) => number().is_some_and(|number| number > *bound),
                Test::LessThan(bound) => number().is_some_and(|number| number < *bound),
            }
        })
    }
}

/// As Kubernetes writes it in the status of a scale.
impl std::fmt::Display for Selector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut sorted: Vec<&Requirement> = self.requirements.iter().collect();
        sorted.sort_by(|left, right| left.key.cmp(&right.key));
        for (position, Requirement { key, test }) in sorted.into_iter().enumerate() {
            if position > 0 {
                write!(f, ",")?;
            }
            match test {
                Test::Equals(value) => write!(f, "{key}={value}")?,
                Test::Differs(value) => write!(f, "{key}!={value}")?,
                Test::In(values) => write!(f, "{key} in ({})", sorted_values(values))?,
                Test::NotIn(values) => write!(f, "{key} notin ({})", sorted_values(values))?,
                Test::Exists => write!(f, "{key}")?,
                Test::DoesNotExist => write!(f, "!{key}")?,
                Test::GreaterThan(bound) => write!(f, "{key}>{bound}")?,
                Test::LessThan(bound) => write!(f, "{key}<{bound}")?,
            }
        }
        Ok(())
    }
}

fn sorted_values(values: &[String]) -> String {
    let mut values = values.to_vec();
    values.sort();
    values.join(",")
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Token {
    Word(String),
    Mark(&'static str),
    End,
}

impl Token {
    fn text(&self) -> &str {
        match self {
            Token::Word(word) => word,
            Token::Mark(mark) => mark,
            Token::End => "",
        }
    }
}

const MARKS: [&str; 10] = ["==", "!=", "=", "!", ",", "(", ")", ">", "<", " "];

fn tokens(text: &str) -> Vec<Token> {
    let mut tokens = Vec::new();
    let mut rest = text;
    let mut word = String::new();
    while let Some(next) = rest.chars().next() {
        let mark = MARKS.into_iter().find(|mark| rest.starts_with(mark));
        if mark.is_some() || next.is_whitespace() {
            if !word.is_empty() {
                tokens.push(Token::Word(std::mem::take(&mut word)));
            }
            match mark {
                Some(mark) if mark != " " => tokens.push(Token::Mark(mark)),
                _ => {}
            }
            rest = rest.get(mark.map_or(next.len_utf8(), str::len)..).unwrap_or_default();
        } else {
            word.push(next);
            rest = rest.get(next.len_utf8()..).unwrap_or_default();
        }
    }
    if !word.is_empty() {
        tokens.push(Token::Word(word));
    }
    tokens
}

struct Parser {
    tokens: Vec<Token>,
    at: usize,
}

impl Parser {
    fn peek(&self) -> Token {
        self.tokens.get(self.at).cloned().unwrap_or(Token::End)
    }

    fn take(&mut self) -> Token {
        let token = self.peek();
        self.at += 1;
        token
    }

    fn selector(mut self) -> Result<Selector, SelectorError> {
        let mut requirements = Vec::new();
        if self.peek() == Token::End {
            return Ok(Selector { requirements });
        }
        loop {
            match self.peek() {
                Token::Word(_) | Token::Mark("!") => {
                    let requirement = self
                        .requirement()
                        .map_err(|why| SelectorError(format!("unable to parse requirement: {why}")))?;
                    requirements.push(requirement);
                    match self.take() {
                        Token::End => return Ok(Selector { requirements }),
                        Token::Mark(",") => match self.peek() {
                            Token::Word(_) | Token::Mark("!") => {}
                            other => {
                                let why = format!("found '{}', expected: identifier after ','", other.text());
                                return Err(SelectorError(why));
                            }
                        },
                        other => {
                            let why = format!("found '{}', expected: ',' or 'end of string'", other.text());
                            return Err(SelectorError(why));
                        }
                    }
                }
                Token::End => return Ok(Selector { requirements }),
                other @ Token::Mark(_) => {
                    let why =
                        format!("found '{}', expected: !, identifier, or 'end of string'", other.text());
                    return Err(SelectorError(why));
                }
            }
        }
    }

    fn requirement(&mut self) -> Result<Requirement, String> {
        let negated = self.peek() == Token::Mark("!");
        if negated {
            self.take();
        }
        let Token::Word(key) = self.take() else {
            self.at -= 1;
            return Err(format!("found '{}', expected: identifier", self.peek().text()));
        };
        check_key(&key)?;
        if negated {
            return Ok(Requirement { key, test: Test::DoesNotExist });
        }
        if matches!(self.peek(), Token::End | Token::Mark(",")) {
            return Ok(Requirement { key, test: Test::Exists });
        }
        let test = match self.take() {
            Token::Mark("=" | "==") => Test::Equals(self.value(&key)?),
            Token::Mark("!=") => Test::Differs(self.value(&key)?),
            Token::Mark(">") => Test::GreaterThan(self.bound(&key)?),
            Token::Mark("<") => Test::LessThan(self.bound(&key)?),
            Token::Word(word) if word == "in" => Test::In(self.values(&key)?),
            Token::Word(word) if word == "notin" => Test::NotIn(self.values(&key)?),
            other => {
                let operators = "in, notin, =, ==, !=, gt, lt";
                return Err(format!("found '{}', expected: {operators}", other.text()));
            }
        };
        Ok(Requirement { key, test })
    }

    fn value(&mut self, key: &str) -> Result<String, String> {
        match self.peek() {
            Token::End | Token::Mark(",") => Ok(String::new()),
            Token::Word(value) => {
                self.take();
                check_value(key, &value)?;
                Ok(value)
            }
            Token::Mark(mark) => Err(format!("found '{mark}', expected: identifier")),
        }
    }

    fn bound(&mut self, key: &str) -> Result<i64, String> {
        let value = self.value(key)?;
        let refused = || {
            format!(
                "values[0]: Invalid value: {value:?}: for 'Gt', 'Lt' operators, the value must be an integer"
            )
        };
        value.parse().map_err(|_| refused())
    }

    fn values(&mut self, key: &str) -> Result<Vec<String>, String> {
        match self.take() {
            Token::Mark("(") => {}
            other => return Err(format!("found '{}' expected: '('", other.text())),
        }
        let mut values = BTreeSet::new();
        let mut expects_value = true;
        loop {
            match self.take() {
                Token::Word(value) if expects_value => {
                    check_value(key, &value)?;
                    values.insert(value);
                    expects_value = false;
                }
                Token::Mark(",") => {
                    if expects_value {
                        values.insert(String::new());
                    }
                    expects_value = true;
                }
                Token::Mark(")") => {
                    if expects_value {
                        values.insert(String::new());
                    }
                    return Ok(values.into_iter().collect());
                }
                other if expects_value => {
                    return Err(format!("found '{}', expected: ',', ')' or identifier", other.text()));
                }
                other => return Err(format!("found '{}', expected: ',' or ')'", other.text())),
            }
        }
    }
}

fn check_key(key: &str) -> Result<(), String> {
    let problems = key_problems(key, "a valid label key");
    if problems.is_empty() {
        Ok(())
    } else {
        Err(format!("<nil>: Invalid value: {key:?}: {}", problems.join("; ")))
    }
}

fn check_value(key: &str, value: &str) -> Result<(), String> {
    match value_problem(value) {
        None => Ok(()),
        Some(problem) => Err(format!("values[0][{key}]: Invalid value: {value:?}: {problem}")),
    }
}

#[cfg(test)]
#[path = "selector_tests.rs"]
mod tests;
