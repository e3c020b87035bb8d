//! Reading a disruption domain again, consistently: the sets of a group or one set, their pods and, where the decision
//! looks at them, the PhasedRollouts of the namespace, or what else is [`Confirmed::ByNamespace`].
//!
//! What is read is taken into the cache ([`Cache::confirm`]), so that the plan which is made next rests on it. Claims and
//! revisions are not read, see [`Confirmed::Never`].

mod marks;

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use futures::{StreamExt, TryStreamExt};
use sts_plus_api::keys;
use sts_plus_planner::selector::{Selector, Test};
use sts_plus_planner::set::SetRow;

use super::api::{Api, ApiError, Kind, Place};
use super::cache::{Cache, Page, Pages, Part, ReadObject, Reading};
use super::executor::Domain;
use super::kinds::{Confirmed, FIELD_SELECTOR, Handling, LABEL_SELECTOR};

/// How long one request may take: a page of one domain is small, and whoever waits holds the domain's lane.
const REQUEST_LIMIT: Duration = Duration::from_secs(5);

/// How long the whole may take, for the same reason.
const CONFIRMED_WITHIN: Duration = Duration::from_secs(15);

/// Requests of one domain under way at once.
const MAX_PARALLEL_READS: usize = 8;

/// From this many sets on, one list of all pods of the namespace is cheaper than one for each set.
const MAX_LISTS_BY_SELECTOR: usize = 10;

/// Reads a domain again.
#[derive(Debug)]
pub(crate) struct Confirmer<'a> {
    pub(super) api: &'a Api,
    pub(super) cache: &'a Cache,
    pub(super) domain: &'a Domain,
}

/// What a list answered.
struct Listed {
    version: String,
    /// Those that the cache does not have at this version. There may be thousands that it has.
    objects: Vec<ReadObject>,
    names: HashSet<Arc<str>>,
}

impl Confirmer<'_> {
    /// Reads what a decision about the domain looks at; what could not be read, and why, where that fails.
    pub(super) async fn confirm(&self, reads: &[Kind]) -> Result<(), Arc<str>> {
        match tokio::time::timeout(CONFIRMED_WITHIN, self.read(reads)).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(why)) => Err(why.into()),
            Err(_) => Err(format!(
                "the objects of namespace {} could not be read within {} s",
                self.domain.namespace,
                CONFIRMED_WITHIN.as_secs()
            )
            .into()),
        }
    }

    async fn read(&self, reads: &[Kind]) -> Result<(), String> {
        let is = |kind: &Kind, confirmed| self.cache.handling(*kind).confirmed == confirmed;
        let members = async {
            if !reads.iter().any(|kind| is(kind, Confirmed::WithMembers)) {
                return Ok(());
            }
            // First the sets, so that the pods are those of the sets as they are now.
            let sets = self.sets().await?;
            self.pods(&sets).await
        };
        let listed = reads.iter().filter(|kind| is(kind, Confirmed::ByNamespace));
        let listed = futures::future::try_join_all(listed.map(|kind| self.namespace_of(*kind)));
        futures::try_join!(members, listed)?;
        Ok(())
    }

    fn namespace(&self) -> &Arc<str> {
        &self.domain.namespace
    }

    /// Reads the sets, and returns them as they are cached then.
    async fn sets(&self) -> Result<Vec<Arc<SetRow>>, String> {
        let namespace = || Arc::clone(self.namespace());
        let store = self.cache.store();
        let (part, selector) = if let Some(uid) = self.domain.lone_set() {
            // One that is not cached is not planned for.
            let Some(set) = store.set_of_uid(self.namespace(), uid) else { return Ok(Vec::new()) };
            let name = Arc::clone(&set.name);
            let selector = (FIELD_SELECTOR, format!("metadata.name={name}"));
            (Part::Set { namespace: namespace(), name }, selector)
        } else {
            // A rollout whose target does not exist has a domain without sets.
            let Some(group) = self.domain.label().cloned() else { return Ok(Vec::new()) };
            let selector = (LABEL_SELECTOR, format!("{}={group}", keys::ROLLOUT_GROUP));
            (Part::Group { namespace: namespace(), group }, selector)
        };
        let listed = self.list(Kind::StatefulSet, Some((selector.0, &selector.1))).await?;
        self.take(vec![part.clone()], listed).await?;
        let names = store.names_in(&part).into_iter();
        Ok(names.filter_map(|name| store.set(self.namespace(), &name)).collect())
    }

    async fn pods(&self, sets: &[Arc<SetRow>]) -> Result<(), String> {
        let part = |set: &Arc<SetRow>| Part::Pods {
            namespace: Arc::clone(&set.namespace),
            owner: Arc::clone(&set.uid),
        };
        let selectors: Option<Vec<_>> =
            sets.iter().map(|set| Some((part(set), terms(&set.selector)?))).collect();
        let Some(selectors) = selectors.filter(|selectors| selectors.len() <= MAX_LISTS_BY_SELECTOR) else {
            let listed = self.list(Kind::Pod, None).await?;
            return self.take(sets.iter().map(part).collect(), listed).await;
        };
        let reads = selectors.into_iter().map(|(part, terms)| async move {
            let listed = self.list(Kind::Pod, Some((LABEL_SELECTOR, &terms))).await?;
            self.take(vec![part], listed).await
        });
        futures::stream::iter(reads).buffer_unordered(MAX_PARALLEL_READS).try_collect::<Vec<()>>().await?;
        Ok(())
    }

    /// Reads all objects of a kind in the namespace; all there are where they are in none.
    async fn namespace_of(&self, kind: Kind) -> Result<(), String> {
        let is_namespaced = kind.definition().namespaced;
        let namespace = if is_namespaced { Arc::clone(self.namespace()) } else { "".into() };
        let listed = self.list(kind, None).await?;
        self.take(vec![Part::Namespace { kind, namespace }], listed).await
    }

    /// Takes in what was listed. A cached object that the list lacks may have left the part without being gone, so it is read
    /// by its name, unless only selected objects are followed: what is not selected any more counts as deleted.
    async fn take(&self, parts: Vec<Part>, listed: Listed) -> Result<(), String> {
        let Listed { version, mut objects, names } = listed;
        let Some(resource) = parts.first().map(Part::resource) else { return Ok(()) };
        let cached = parts.iter().flat_map(|part| self.cache.store().names_in(part));
        let missing: Vec<_> = cached.filter(|name| !names.contains(name)).collect();
        let is_selected = !self.cache.handling(resource).selection.is_all();
        let reads = missing.into_iter().map(|name| async move {
            if is_selected {
                return Ok((name, None));
            }
            let read = self.api.read(Place::object(resource, self.namespace(), &name)).await;
            match read {
                Ok(bytes) => {
                    let object = self.cache.store().read(resource, &String::from_utf8_lossy(&bytes));
                    Ok((name, Some(object)))
                }
                Err(ApiError::NotFound(_)) => Ok((name, None)),
                Err(error) => Err(format!("cannot get {resource} {}/{name}: {error}", self.namespace())),
            }
        });
        let read: Vec<(Arc<str>, Option<ReadObject>)> =
            futures::stream::iter(reads).buffer_unordered(MAX_PARALLEL_READS).try_collect().await?;
        let mut gone = Vec::new();
        for (name, object) in read {
            match object {
                Some(object) => objects.push(object),
                None => gone.push(name),
            }
        }
        self.cache.confirm(Reading { parts, version, objects, gone });
        Ok(())
    }

    /// A list without a version, which is a consistent read. Each page is read as it comes, and not kept.
    async fn list(&self, resource: Kind, selector: Option<(&'static str, &str)>) -> Result<Listed, String> {
        let Handling { form, selection, .. } = self.cache.handling(resource);
        let place = Place::collection(resource, Some(self.namespace())).in_form(form);
        let store = self.cache.store();
        let words = |error: &dyn std::fmt::Display| {
            format!("cannot list {resource} in namespace {}: {error}", self.namespace())
        };
        let mut listed = Listed { version: String::new(), objects: Vec::new(), names: HashSet::new() };
        let mut pages = Pages::of(selection.query_within(selector), REQUEST_LIMIT);
        loop {
            let bytes = match pages.next(self.api, place).await {
                Ok(bytes) => bytes,
                // The cluster does not know the kind: there are no objects of it.
                Err(ApiError::NotFound(_)) if resource.definition().custom => return Ok(listed),
                Err(error) => return Err(words(&error)),
            };
            let page: Page<'_> = serde_json::from_slice(&bytes).map_err(|error| words(&error))?;
            for item in &page.items {
                let object = store.read(resource, item.get());
                listed.names.insert(Arc::clone(object.name()));
                if !store.has(&object) {
                    listed.objects.push(object);
                }
            }
            if !pages.turn(&page) {
                listed.version = page.metadata.resource_version;
                return Ok(listed);
            }
        }
    }
}

/// A selector as a query spells it; `None` for one that could not be read.
fn terms(selector: &Selector) -> Option<String> {
    let terms = selector.requirements.iter().map(|requirement| {
        let key = &requirement.key;
        match &requirement.test {
            Test::In(values) => format!("{key} in ({})", values.join(",")),
            Test::NotIn(values) => format!("{key} notin ({})", values.join(",")),
            Test::Exists => key.to_string(),
            Test::DoesNotExist => format!("!{key}"),
        }
    });
    let terms = terms.collect::<Vec<_>>().join(",");
    (!terms.is_empty()).then_some(terms)
}

#[cfg(test)]
#[path = "confirmation_tests.rs"]
mod tests;
