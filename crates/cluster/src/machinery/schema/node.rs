//! Schemas as a graph: definitions refer to each other, and one of them to itself.

use std::{collections::BTreeMap, sync::Arc};

use serde::Deserialize;
use serde_json::{Map, Value};

use super::{pattern::Patterns, rules::Rules};

/// Position of a node in its [`Graph`].
type Id = usize;

/// All nodes that some schemas consist of.
#[derive(Debug, Default)]
pub(crate) struct Graph {
    nodes: Vec<Node>,
    /// What an edge that leads nowhere leads to.
    anything: Node,
}

impl Graph {
    pub(super) fn has_rules(&self) -> bool {
        self.nodes.iter().any(|node| node.rules.judge.is_some())
    }
}

/// What a schema says of a value.
#[derive(Clone, Debug, Default)]
pub(crate) struct Node {
    pub(crate) kind: Kind,
    pub(crate) properties: BTreeMap<String, Edge>,
    pub(crate) others: Others,
    pub(crate) items: Option<Edge>,
    pub(crate) list: List,
    pub(crate) atomic: bool,
    pub(crate) required: Vec<String>,
    pub(crate) nullable: bool,
    pub(crate) unknown: Unknown,
    pub(crate) embedded: bool,
    /// What is known of the Go type that this is read into.
    pub(crate) go: Option<GoType>,
    pub(crate) rules: Rules,
}

impl Node {
    /// Whether a field is written as null where it is not set.
    pub(crate) fn is_null_when_unset(&self, name: &str) -> bool {
        self.go.as_ref().is_some_and(|go| go.nulls.iter().any(|null| null == name))
    }
}

/// What OpenAPI does not say of a Go type.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub(crate) struct GoType {
    /// The type's own name, as in `PodSpec`; where it comes from is `v1` throughout.
    #[serde(skip)]
    pub(crate) name: String,
    /// Optional scalars that are pointers: zero is a value of theirs, and written.
    #[serde(default)]
    pub(crate) pointers: Vec<String>,
    /// Fields that are written as null when they are not set.
    #[serde(default)]
    pub(crate) nulls: Vec<String>,
    /// The types of scalars that have a name of their own.
    #[serde(default)]
    pub(crate) types: BTreeMap<String, String>,
}

/// The type of a value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Kind {
    #[default]
    Any,
    Object,
    Array,
    String,
    Integer,
    Number,
    Boolean,
    IntOrString,
    Quantity,
}

/// What becomes of unknown fields.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Unknown {
    #[default]
    Dropped,
    /// They are dropped here but kept somewhere above, which is what apply goes by.
    KeptAbove,
    Kept,
}

/// What an object may hold besides its properties.
#[derive(Clone, Debug, Default)]
pub(crate) enum Others {
    #[default]
    Unsaid,
    Forbidden,
    Free,
    Of(Edge),
}

/// How the items of a list are told apart.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum List {
    #[default]
    Atomic,
    Set,
    Map(Vec<String>),
}

/// A node as one place uses it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Edge {
    to: Id,
    pub(crate) default: Option<Value>,
    /// Strategic merge: lists are merged, by this key where they hold objects.
    pub(crate) merge: bool,
    pub(crate) merge_key: Option<String>,
    /// Strategic merge: the object is replaced as a whole.
    pub(crate) replace: bool,
    /// Overrides whether the node is atomic.
    atomic: Option<bool>,
}

/// A node in its graph, as one place uses it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct View<'a> {
    graph: &'a Graph,
    edge: &'a Edge,
}

impl<'a> View<'a> {
    pub(crate) fn new(graph: &'a Graph, edge: &'a Edge) -> Self {
        View { graph, edge }
    }

    pub(crate) fn node(self) -> &'a Node {
        self.graph.nodes.get(self.edge.to).unwrap_or(&self.graph.anything)
    }

    pub(crate) fn edge(self) -> &'a Edge {
        self.edge
    }

    pub(crate) fn is_atomic(self) -> bool {
        self.edge.atomic.unwrap_or(self.node().atomic)
    }

    pub(crate) fn property(self, name: &str) -> Option<View<'a>> {
        self.node().properties.get(name).map(|edge| self.along(edge))
    }

    pub(crate) fn properties(self) -> impl Iterator<Item = (&'a str, View<'a>)> {
        self.node().properties.iter().map(move |(name, edge)| (name.as_str(), self.along(edge)))
    }

    /// What an object holds under a name that is no property.
    pub(crate) fn other(self) -> Option<View<'a>> {
        match &self.node().others {
            Others::Of(edge) => Some(self.along(edge)),
            Others::Unsaid | Others::Forbidden | Others::Free => None,
        }
    }

    /// What an object holds under this name.
    pub(crate) fn member(self, name: &str) -> Option<View<'a>> {
        self.property(name).or_else(|| self.other())
    }

    pub(crate) fn items(self) -> Option<View<'a>> {
        self.node().items.as_ref().map(|edge| self.along(edge))
    }

    pub(crate) fn along(self, edge: &'a Edge) -> View<'a> {
        View { graph: self.graph, edge }
    }
}

/// Reads schemas into a graph.
#[derive(Debug, Default)]
pub(crate) struct Builder {
    graph: Graph,
    definitions: BTreeMap<String, Id>,
    /// By the names of definitions.
    go: BTreeMap<String, GoType>,
    patterns: Patterns,
}

const REFERENCE: &str = "#/components/schemas/";
const OBJECT_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";
const QUANTITY: &str = "io.k8s.apimachinery.pkg.api.resource.Quantity";
/// Arbitrary JSON that Kubernetes calls an object.
const RAW: [&str; 2] =
    ["io.k8s.apimachinery.pkg.runtime.RawExtension", "io.k8s.apimachinery.pkg.apis.meta.v1.FieldsV1"];

impl Builder {
    /// Knows this of Go types.
    pub(super) fn knowing(go: BTreeMap<String, GoType>) -> Self {
        Builder { go, ..Builder::default() }
    }

    /// Reads definitions; each may refer to all of them.
    pub(crate) fn define(&mut self, definitions: &Map<String, Value>) {
        for name in definitions.keys() {
            let id = self.add(Node::default());
            self.definitions.insert(name.clone(), id);
        }
        for (name, definition) in definitions {
            let mut node = match name.as_str() {
                QUANTITY => Node { kind: Kind::Quantity, ..Node::default() },
                name if RAW.contains(&name) => {
                    Node { unknown: Unknown::Kept, atomic: true, ..Node::default() }
                }
                _ => self.node(definition, false),
            };
            let known = self.go.get(name).cloned().unwrap_or_default();
            let own = name.rsplit('.').next().unwrap_or_default().to_owned();
            node.go = Some(GoType { name: own, ..known });
            if let Some(slot) = self.definitions.get(name).and_then(|&id| self.graph.nodes.get_mut(id)) {
                *slot = node;
            }
        }
    }

    pub(crate) fn definition(&self, name: &str) -> Edge {
        Edge { to: self.definitions.get(name).copied().unwrap_or(usize::MAX), ..Edge::default() }
    }

    /// Reads the schema of a custom resource, whose type and metadata go without saying.
    pub(crate) fn resource(&mut self, schema: &Value) -> Edge {
        let mut node = self.node(schema, false);
        self.describe(&mut node);
        self.edge_to(node)
    }

    /// Reads the schema of a value.
    pub(crate) fn value(&mut self, schema: &Value) -> Edge {
        let node = self.node(schema, false);
        self.edge_to(node)
    }

    pub(crate) fn finish(self) -> Arc<Graph> {
        Arc::new(self.graph)
    }

    /// What every object has.
    fn describe(&mut self, node: &mut Node) {
        for name in ["apiVersion", "kind"] {
            let said = node.properties.remove(name);
            let edge = said.unwrap_or_else(|| self.edge_to(Node { kind: Kind::String, ..Node::default() }));
            node.properties.insert(name.to_owned(), edge);
        }
        // Its schema may only restrict the name; the fields are those of all objects.
        node.properties.insert("metadata".to_owned(), self.definition(OBJECT_META));
    }

    fn add(&mut self, node: Node) -> Id {
        self.graph.nodes.push(node);
        self.graph.nodes.len() - 1
    }

    fn edge_to(&mut self, node: Node) -> Edge {
        Edge { to: self.add(node), ..Edge::default() }
    }

    fn edge(&mut self, schema: &Value, preserve: bool) -> Edge {
        let strategies = text(schema, "x-kubernetes-patch-strategy").unwrap_or_default();
        let to = if let Some(name) = reference(schema) {
            self.definitions.get(name).copied().unwrap_or(usize::MAX)
        } else {
            let node = self.node(schema, preserve);
            self.add(node)
        };
        Edge {
            to,
            default: schema.get("default").cloned(),
            merge: strategies.split(',').any(|strategy| strategy == "merge"),
            merge_key: text(schema, "x-kubernetes-patch-merge-key").map(str::to_owned),
            replace: strategies == "replace",
            atomic: text(schema, "x-kubernetes-map-type").map(|how| how == "atomic"),
        }
    }

    fn node(&mut self, schema: &Value, preserve: bool) -> Node {
        let unknown = match flag(schema, "x-kubernetes-preserve-unknown-fields") {
            true => Unknown::Kept,
            false if preserve => Unknown::KeptAbove,
            false => Unknown::Dropped,
        };
        let preserve = unknown != Unknown::Dropped;
        let properties =
            schema.get("properties").and_then(Value::as_object).map_or_else(BTreeMap::new, |properties| {
                let edge = |(name, schema): (&String, &Value)| (name.clone(), self.edge(schema, preserve));
                properties.iter().map(edge).collect()
            });
        let others = match schema.get("additionalProperties") {
            None | Some(Value::Null) => Others::Unsaid,
            Some(Value::Bool(true)) => Others::Free,
            Some(Value::Bool(false)) => Others::Forbidden,
            Some(values) => Others::Of(self.edge(values, preserve)),
        };
        let items = schema.get("items").map(|items| self.edge(items, preserve));
        // A pattern that is none is refused with its definition; here it holds nobody back.
        let pattern = text(schema, "pattern").and_then(|pattern| self.patterns.read(pattern).ok());
        let mut node = Node {
            kind: kind(schema),
            properties,
            others,
            items,
            list: list(schema),
            atomic: text(schema, "x-kubernetes-map-type") == Some("atomic"),
            required: texts(schema, "required"),
            nullable: flag(schema, "nullable"),
            unknown,
            embedded: flag(schema, "x-kubernetes-embedded-resource"),
            go: None,
            rules: Rules::read(schema, pattern, |schema| self.edge(schema, preserve)),
        };
        if node.embedded {
            self.describe(&mut node);
        }
        node
    }
}

/// Kubernetes wraps a reference that has a default or a comment of its own into an `allOf`.
fn reference(schema: &Value) -> Option<&str> {
    let wrapped = match schema.get("allOf").and_then(Value::as_array).map(Vec::as_slice) {
        Some([only]) => only.get("$ref"),
        _ => None,
    };
    schema.get("$ref").or(wrapped)?.as_str()?.strip_prefix(REFERENCE)
}

fn kind(schema: &Value) -> Kind {
    let named = match text(schema, "type") {
        Some("object") => Kind::Object,
        Some("array") => Kind::Array,
        Some("string") => Kind::String,
        Some("integer") => Kind::Integer,
        Some("number") => Kind::Number,
        Some("boolean") => Kind::Boolean,
        _ => Kind::Any,
    };
    let either =
        flag(schema, "x-kubernetes-int-or-string") || text(schema, "format") == Some("int-or-string");
    if named == Kind::Any && either { Kind::IntOrString } else { named }
}

/// Built-in lists that say nothing to apply follow what they say to strategic merge.
fn list(schema: &Value) -> List {
    match (text(schema, "x-kubernetes-list-type"), text(schema, "x-kubernetes-patch-strategy")) {
        (Some("set"), _) => List::Set,
        (Some("map"), _) => List::Map(texts(schema, "x-kubernetes-list-map-keys")),
        (None, Some("merge" | "merge,retainKeys")) => match text(schema, "x-kubernetes-patch-merge-key") {
            Some(key) => List::Map(vec![key.to_owned()]),
            None => List::Set,
        },
        _ => List::Atomic,
    }
}

pub(super) fn text<'a>(schema: &'a Value, name: &str) -> Option<&'a str> {
    schema.get(name)?.as_str()
}

pub(super) fn flag(schema: &Value, name: &str) -> bool {
    schema.get(name).and_then(Value::as_bool).unwrap_or(false)
}

fn texts(schema: &Value, name: &str) -> Vec<String> {
    let items = schema.get(name).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    items.iter().filter_map(Value::as_str).map(str::to_owned).collect()
}
