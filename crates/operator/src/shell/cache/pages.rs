//! A paged list whose pages shrink where one does not fit.

use std::time::Duration;

use super::wire::Page;
use crate::shell::api::{Api, ApiError, MAX_OBJECT_BYTES, MAX_PAGE_BYTES, Place};

/// Objects of the first page: kube-apiserver's own clients use the same.
const PAGE_OBJECTS: u32 = 500;

/// By how much a page shrinks that did not fit.
const SHRINK: u32 = 8;

/// The pages of one list.
#[derive(Debug)]
pub(in crate::shell) struct Pages {
    limit: u32,
    next: String,
    /// What is listed, as parameters of the query; all of it where there are none.
    selectors: Vec<(&'static str, String)>,
    /// How long one page may take.
    within: Duration,
}

impl Pages {
    /// The pages of a list of what is selected, each of which may take so long.
    pub(in crate::shell) fn of(selectors: Vec<(&'static str, String)>, within: Duration) -> Self {
        Self { limit: PAGE_OBJECTS, next: String::new(), selectors, within }
    }

    /// The next page. One that is larger than it may be is asked for again with fewer objects.
    pub(in crate::shell) async fn next(&mut self, api: &Api, place: Place<'_>) -> Result<Vec<u8>, ApiError> {
        loop {
            let limit = self.limit.to_string();
            let mut query = vec![("limit", limit.as_str())];
            query.extend(self.selectors.iter().map(|(key, value)| (*key, value.as_str())));
            if !self.next.is_empty() {
                query.push(("continue", self.next.as_str()));
            }
            // A single object fits where any object does.
            let bytes = if self.limit == 1 { MAX_OBJECT_BYTES } else { MAX_PAGE_BYTES };
            match api.list_within(place, &query, (self.within, bytes)).await {
                Err(ApiError::TooLarge { .. }) if self.limit > 1 => {
                    self.limit = (self.limit / SHRINK).max(1);
                    tracing::info!(resource = %place.resource, objects = self.limit, "a page did not fit: smaller ones");
                }
                answer => return answer,
            }
        }
    }

    /// Continues behind this page. Returns whether there is anything.
    pub(in crate::shell) fn turn(&mut self, page: &Page<'_>) -> bool {
        self.next.clone_from(&page.metadata.next);
        !self.next.is_empty()
    }
}
