//! How apply sees a value: as a scalar, a list or a map, each whole or in parts.

use serde_json::{Map, Value};

use super::set::{Element, Scalar};
use crate::machinery::schema::{Kind, List, Others, Unknown, View};

/// What is known of a value's type.
#[derive(Clone, Copy, Debug)]
pub(super) enum Type<'a> {
    Known(View<'a>),
    /// Nothing, but maps are taken apart.
    Deduced,
    /// Nothing, and everything is whole.
    Untyped,
}

/// How a value is owned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    Scalar,
    List { whole: bool },
    Map { whole: bool },
}

/// Why an item of a list cannot be told from others.
pub(super) type Unidentified = String;

impl<'a> Type<'a> {
    /// The shape of a value; where the type is open, the value decides.
    pub(super) fn shape(self, value: Option<&Value>) -> Shape {
        let kind = match self {
            Type::Known(view) => view.node().kind,
            Type::Deduced | Type::Untyped => Kind::Any,
        };
        match kind {
            Kind::Object => self.as_map(),
            Kind::Array => self.as_list(),
            Kind::String | Kind::Integer | Kind::Number | Kind::Boolean | Kind::Quantity => Shape::Scalar,
            Kind::Any | Kind::IntOrString => match value {
                Some(Value::Bool(_) | Value::Number(_) | Value::String(_)) => Shape::Scalar,
                Some(Value::Array(_)) => self.as_list(),
                None | Some(Value::Null | Value::Object(_)) => self.as_map(),
            },
        }
    }

    fn as_map(self) -> Shape {
        Shape::Map {
            whole: match self {
                Type::Known(view) => view.is_atomic(),
                Type::Deduced => false,
                Type::Untyped => true,
            },
        }
    }

    fn as_list(self) -> Shape {
        Shape::List {
            whole: match self {
                Type::Known(view) => view.node().list == List::Atomic,
                Type::Deduced | Type::Untyped => true,
            },
        }
    }

    /// Whether an object of this type names this field.
    pub(super) fn declares(self, name: &str) -> bool {
        matches!(self, Type::Known(view) if view.property(name).is_some())
    }

    /// The type of a field; none if there must not be such a field.
    pub(super) fn declared_field(self, name: &str) -> Option<Type<'a>> {
        let Type::Known(view) = self else { return Some(self) };
        if let Some(member) = view.member(name) {
            return Some(Type::Known(member));
        }
        let node = view.node();
        match node.others {
            Others::Free => Some(Type::Deduced),
            Others::Unsaid if node.unknown != Unknown::Dropped || node.properties.is_empty() => {
                Some(Type::Deduced)
            }
            Others::Unsaid | Others::Forbidden | Others::Of(_) => None,
        }
    }

    pub(super) fn field(self, name: &str) -> Type<'a> {
        self.declared_field(name).unwrap_or(Type::Deduced)
    }

    pub(super) fn item(self) -> Type<'a> {
        match self {
            Type::Known(view) => view.items().map_or(Type::Untyped, Type::Known),
            Type::Deduced | Type::Untyped => Type::Untyped,
        }
    }

    /// The type of what is one step down.
    pub(super) fn below(self, element: &Element) -> Type<'a> {
        match element {
            Element::Field(name) => self.field(name),
            Element::Key(_) | Element::Value(_) | Element::Index(_) => self.item(),
        }
    }

    /// What an item of this list, which is not whole, is known by.
    pub(super) fn identify(self, item: &Value) -> Result<Element, Unidentified> {
        let keys = match self {
            Type::Known(view) => match &view.node().list {
                List::Map(keys) => keys.as_slice(),
                List::Set | List::Atomic => &[],
            },
            Type::Deduced | Type::Untyped => &[],
        };
        if keys.is_empty() {
            return match item {
                Value::Object(_) => {
                    Err("associative list without keys has an element that's a map type".to_owned())
                }
                Value::Array(_) => Err("not supported: associative list with lists as elements".to_owned()),
                Value::Null => {
                    Err("associative list without keys has an element that's an explicit null".to_owned())
                }
                scalar => Ok(Element::Value(Scalar(scalar.clone()))),
            };
        }
        let fields = match item {
            Value::Object(fields) => fields,
            Value::Null => return Err("associative list with keys may not have a null element".to_owned()),
            _ => return Err("associative list with keys may not have non-map elements".to_owned()),
        };
        let mut known: Vec<_> = keys.iter().filter_map(|key| self.key_field(key, fields)).collect();
        if known.is_empty() {
            return Err(format!(
                "associative list with keys has an element that omits all key fields {keys:?} \
                 (and doesn't have default values for any key fields)"
            ));
        }
        known.sort();
        Ok(Element::Key(known))
    }

    fn key_field(self, key: &str, fields: &Map<String, Value>) -> Option<(String, Scalar)> {
        let standard = || match self.item().declared_field(key)? {
            Type::Known(view) => view.edge().default.as_ref(),
            Type::Deduced | Type::Untyped => None,
        };
        fields.get(key).or_else(standard).map(|value| (key.to_owned(), Scalar(value.clone())))
    }
}

/// A value as a map; null and what is none are no map.
pub(super) fn map(value: Option<&Value>) -> Option<&Map<String, Value>> {
    value.and_then(Value::as_object)
}

/// A value as a list; null and what is none are no list.
pub(super) fn list(value: Option<&Value>) -> Option<&[Value]> {
    value.and_then(Value::as_array).map(Vec::as_slice)
}
