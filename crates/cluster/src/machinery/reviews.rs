//! Questions that are asked by creating something: may I, what may I, who am I. Here everybody may do everything.

use http::{Method, StatusCode};
use serde_json::{Map, Value, json};

use super::answer::{About, Refusal};
use super::object::{self, text};
use super::request::ResourcePath;
use super::schema::Cause;
use super::service::{AskedBody, Reply, Server, in_json, read_body};
use super::show;
use super::state::State;

/// Who everybody is.
const USER: &str = "playground";

/// A kind of question.
#[derive(Debug)]
pub(crate) struct Review {
    pub(crate) group: &'static str,
    pub(crate) plural: &'static str,
    pub(crate) kind: &'static str,
    answer: fn(&mut Map<String, Value>, &State) -> Result<(), Refusal>,
}

/// The version that all of them have.
pub(crate) const VERSION: &str = "v1";
const AUTHORIZATION: &str = "authorization.k8s.io";
const AUTHENTICATION: &str = "authentication.k8s.io";

pub(crate) const ALL: [Review; 3] = [
    Review {
        group: AUTHENTICATION,
        plural: "selfsubjectreviews",
        kind: "SelfSubjectReview",
        answer: who_am_i,
    },
    Review {
        group: AUTHORIZATION,
        plural: "selfsubjectaccessreviews",
        kind: "SelfSubjectAccessReview",
        answer: may_i,
    },
    Review {
        group: AUTHORIZATION,
        plural: "selfsubjectrulesreviews",
        kind: "SelfSubjectRulesReview",
        answer: what_may_i,
    },
];

/// The question that a path asks.
pub(crate) fn find(path: &ResourcePath) -> Option<&'static Review> {
    ALL.iter()
        .find(|review| review.group == path.group && review.plural == path.plural && path.version == VERSION)
}

impl Review {
    /// The question with its answer.
    pub(crate) fn answer(&self, mut body: Value, state: &State) -> Result<Value, Refusal> {
        let api_version = format!("{}/{VERSION}", self.group);
        let said = (text(&body, "/kind"), text(&body, "/apiVersion"));
        if !matches!(said, ("", "")) && said != (self.kind, &api_version) {
            let why = format!(
                "{} in version \"{}\" cannot be handled as a {}: no kind is registered for it here",
                or_nothing(said.0),
                or_nothing(said.1),
                self.kind
            );
            return Err(Refusal::bad_request(why));
        }
        let asked = object::fields(&mut body);
        let mut shown = Map::new();
        shown.insert("kind".into(), self.kind.into());
        shown.insert("apiVersion".into(), api_version.into());
        shown.insert("metadata".into(), json!({}));
        if let Some(spec) = asked.remove("spec") {
            shown.insert("spec".into(), spec);
        }
        (self.answer)(&mut shown, state)?;
        Ok(shown.into())
    }
}

fn or_nothing(text: &str) -> &str {
    if text.is_empty() { "nothing" } else { text }
}

#[expect(clippy::unnecessary_wraps, reason = "one of several that are called alike")]
fn who_am_i(shown: &mut Map<String, Value>, state: &State) -> Result<(), Refusal> {
    shown.remove("spec");
    shown.insert("metadata".into(), json!({ "creationTimestamp": state.now() }));
    let groups = ["system:masters", "system:authenticated"];
    shown.insert("status".into(), json!({ "userInfo": { "username": USER, "groups": groups } }));
    Ok(())
}

fn may_i(shown: &mut Map<String, Value>, _: &State) -> Result<(), Refusal> {
    let said =
        |field: &str| shown.get("spec").and_then(|spec| spec.get(field)).is_some_and(|said| !said.is_null());
    if said("resourceAttributes") == said("nonResourceAttributes") {
        let why = "exactly one of nonResourceAttributes or resourceAttributes must be specified";
        let cause = Cause::invalid("spec.resourceAttributes", &Value::Null, why);
        return Err(Refusal::invalid(About { group: AUTHORIZATION, name: "" }, "", &[cause]));
    }
    shown.insert("status".into(), json!({ "allowed": true }));
    Ok(())
}

fn what_may_i(shown: &mut Map<String, Value>, _: &State) -> Result<(), Refusal> {
    let spec = shown.insert("spec".into(), json!({})).unwrap_or_default();
    if text(&spec, "/namespace").is_empty() {
        return Err(Refusal::bad_request("no namespace on request"));
    }
    let status = json!({
        "resourceRules": [{ "verbs": ["*"], "apiGroups": ["*"], "resources": ["*"] }],
        "nonResourceRules": [{ "verbs": ["*"], "nonResourceURLs": ["*"] }],
        "incomplete": false,
    });
    shown.insert("status".into(), status);
    Ok(())
}

impl Server {
    /// Answers a question that is asked by creating something.
    pub(super) async fn review(
        &self,
        review: &Review,
        method: &Method,
        path: &ResourcePath,
        (content_type, body): (&str, AskedBody),
    ) -> Result<Reply, Refusal> {
        if method != Method::POST || path.name.is_some() {
            return Err(Refusal::method_not_allowed());
        }
        let mut content_type = content_type.to_owned();
        let body = read_body(in_json(&mut content_type, body).await?).await?;
        let asked = super::json::read(&body).map_err(Refusal::bad_request)?.value;
        let answer = review.answer(asked, &self.lock())?;
        Ok(Reply::new(StatusCode::CREATED, show::bytes(&answer)))
    }
}
