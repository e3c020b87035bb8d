//! What the nodes of the cluster declare that they can do.

use serde::Deserialize;
use sts_plus_planner::plan::Kind;

use crate::shell::api::{Api, ApiError, Place};
use crate::shell::kinds::Definition;

/// The nodes of a cluster.
static NODES: Definition = Definition::built_in("v1", "Node", "nodes").cluster_wide();

/// Nodes in a page. One has some 10 KiB, most of it the names of its images.
const PAGE: &str = "200";

/// Pages at most: a cluster has fewer nodes.
const MAX_PAGES: usize = 100;

/// Whether there are nodes, and each of them declares a feature. One that cannot be read does not.
pub(super) async fn declare(api: &Api, feature: &str) -> bool {
    match each_declares(api, feature).await {
        Ok(declares) => declares,
        Err(error) => {
            tracing::info!(feature, "the nodes cannot be listed, so that the feature is not used: {error}");
            false
        }
    }
}

async fn each_declares(api: &Api, feature: &str) -> Result<bool, ApiError> {
    let mut next = String::new();
    let mut has_nodes = false;
    for _ in 0..MAX_PAGES {
        let mut query = vec![("limit", PAGE)];
        if !next.is_empty() {
            query.push(("continue", &*next));
        }
        let page = api.list(Place::collection(Kind::Other(&NODES), None), &query).await?;
        let page: List = serde_json::from_slice(&page)
            .map_err(|error| ApiError::Unanswered(format!("a list of nodes that cannot be read: {error}")))?;
        let nodes = page.items.unwrap_or_default();
        let declares =
            |node: &Node| node.status.declared_features.iter().flatten().any(|declared| declared == feature);
        if !nodes.iter().all(declares) {
            return Ok(false);
        }
        has_nodes |= !nodes.is_empty();
        next = page.metadata.next;
        if next.is_empty() {
            return Ok(has_nodes);
        }
    }
    Ok(false)
}

#[derive(Deserialize)]
struct List {
    #[serde(default)]
    metadata: Continue,
    #[serde(default)]
    items: Option<Vec<Node>>,
}

#[derive(Default, Deserialize)]
struct Continue {
    #[serde(default, rename = "continue")]
    next: String,
}

#[derive(Deserialize)]
struct Node {
    #[serde(default)]
    status: Status,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Status {
    declared_features: Option<Vec<String>>,
}
