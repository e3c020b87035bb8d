//! Sets that select each other's pods.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::health::Member;
use crate::selector::Test;
use crate::set::SetRow;

/// Two sets that select the same pods.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Overlap {
    /// The member of this group.
    pub set: Arc<str>,
    /// The other set.
    pub other: Arc<str>,
}

/// For each member whose selector also matches the pods of another set, one such set: two thousand sets with equal
/// labels have four million pairs, and the first says all that the user has to know.
pub fn overlaps<'a>(members: &'a [Member], others: &'a [Arc<SetRow>]) -> Vec<Overlap> {
    let mut open = Open::of(members);
    let mut found = BTreeMap::new();
    for other in others {
        open.look_at(other, &mut found);
    }
    found.into_iter().map(|(set, other)| Overlap { set, other }).collect()
}

/// The members for which nothing was found yet, by a label that a pod must have to be selected, so that each set is only
/// compared with those that may select it.
#[derive(Default)]
struct Open<'m> {
    keys: BTreeSet<&'m str>,
    by_label: BTreeMap<(&'m str, &'m str), Vec<&'m SetRow>>,
    /// Those whose selector asks for no value of any label.
    rest: Vec<&'m SetRow>,
}

impl<'m> Open<'m> {
    fn of(members: &'m [Member]) -> Self {
        let mut open = Self::default();
        for set in members.iter().map(|member| &*member.set) {
            let asked = set.selector.requirements.iter().find_map(|requirement| match &requirement.test {
                Test::In(values) => Some((&*requirement.key, values)),
                Test::NotIn(_) | Test::Exists | Test::DoesNotExist => None,
            });
            let Some((key, values)) = asked else {
                open.rest.push(set);
                continue;
            };
            open.keys.insert(key);
            for value in values {
                open.by_label.entry((key, value)).or_default().push(set);
            }
        }
        open
    }

    /// Closes the members that select pods of this set.
    fn look_at(&mut self, other: &'m SetRow, found: &mut BTreeMap<Arc<str>, Arc<str>>) {
        let mut is_open = |set: &mut &SetRow| {
            if found.contains_key(&set.name) {
                return false;
            }
            let selects = set.uid != other.uid
                && set.selector.matches(|key| other.template_labels.get(key).map(|value| &**value));
            if selects {
                found.insert(Arc::clone(&set.name), Arc::clone(&other.name));
            }
            !selects
        };
        for key in &self.keys {
            let value = other.template_labels.get(*key);
            if let Some(sets) = value.and_then(|value| self.by_label.get_mut(&(*key, &**value))) {
                sets.retain_mut(&mut is_open);
            }
        }
        self.rest.retain_mut(&mut is_open);
    }
}

#[cfg(test)]
#[path = "overlap_tests.rs"]
mod tests;
