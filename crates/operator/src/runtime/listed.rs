//! The pods that exist, by a consistent list: a decision that must not miss one cannot rest on a cache.

use std::collections::BTreeSet;

use serde::Deserialize;
use sts_plus_planner::plan::{Kind, PodsOf};

use crate::shell::api::{Api, ApiError, Place};
use crate::shell::kinds::{Form, LABEL_SELECTOR};

/// Pods in a page, as metadata of about 1 KiB each.
const PAGE: &str = "500";

/// Pages at most: a StatefulSet has fewer pods.
const MAX_PAGES: usize = 100;

/// The names of the pods with these labels. Without a version the list is consistent.
pub(super) async fn names(api: &Api, question: &PodsOf) -> Result<BTreeSet<Box<str>>, ApiError> {
    let (mut names, mut next) = (BTreeSet::new(), String::new());
    for _ in 0..MAX_PAGES {
        let mut query = vec![("limit", PAGE), (LABEL_SELECTOR, &*question.selector)];
        if !next.is_empty() {
            query.push(("continue", &*next));
        }
        let place = Place::collection(Kind::Pod, Some(&question.namespace)).in_form(Form::Metadata);
        let page = api.list(place, &query).await?;
        let page: List = serde_json::from_slice(&page)
            .map_err(|error| ApiError::Unanswered(format!("a list of pods that cannot be read: {error}")))?;
        names.extend(page.items.unwrap_or_default().into_iter().map(|item| item.metadata.name));
        next = page.metadata.next;
        if next.is_empty() {
            return Ok(names);
        }
    }
    Err(ApiError::Unanswered(format!("a list of pods has more than {MAX_PAGES} pages")))
}

#[derive(Deserialize)]
struct List {
    #[serde(default)]
    metadata: Continue,
    #[serde(default)]
    items: Option<Vec<Item>>,
}

#[derive(Default, Deserialize)]
struct Continue {
    #[serde(default, rename = "continue")]
    next: String,
}

#[derive(Deserialize)]
struct Item {
    metadata: Named,
}

#[derive(Deserialize)]
struct Named {
    name: Box<str>,
}
