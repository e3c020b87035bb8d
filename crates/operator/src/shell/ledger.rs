//! What is awaited and in flight, by the owner of what was written (rules B and D).
//!
//! A lane asks for everything that concerns its domain. Which domain that is, the owner itself says: a set that has moved to
//! another group takes what is awaited of its pods, and what is in flight, along. An owner that the view does not show any
//! more stays where it was last written for.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use sts_plus_planner::plan::{Action, Object};
use tokio::time::Instant;

use super::api::Kind;
use super::cache::Seen;
use super::executor::Domain;
use super::expectations::{Expectation, Expectations, Unknown};

/// The UID of a set, or of another object for which a controller plans.
pub(super) type Owner = Arc<str>;

/// What is awaited of the writes of all controllers.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    accounts: HashMap<Owner, Account>,
    /// The owners by the domain that they were last written for.
    recorded: BTreeMap<Domain, BTreeSet<Owner>>,
}

#[derive(Debug)]
struct Account {
    domain: Domain,
    expectations: Expectations,
    /// Writes that were sent and have not been answered.
    in_flight: usize,
}

impl Account {
    fn is_settled(&self) -> bool {
        self.in_flight == 0 && self.expectations.is_empty()
    }
}

impl Ledger {
    /// The owners last written for in this domain.
    pub(super) fn recorded(&self, domain: &Domain) -> Vec<Owner> {
        self.recorded.get(domain).into_iter().flatten().cloned().collect()
    }

    /// Whether nothing is awaited of anybody.
    pub(super) fn is_empty(&self) -> bool {
        self.accounts.is_empty()
    }

    /// Whether anything is awaited of this owner.
    pub(super) fn knows(&self, owner: &str) -> bool {
        self.accounts.contains_key(owner)
    }

    /// Whether a write for one of these owners has not been answered.
    pub(super) fn is_in_flight(&self, owners: &[Owner]) -> bool {
        self.of(owners).any(|account| account.in_flight > 0)
    }

    /// Notes that a write is sent from the lane of a domain.
    pub(super) fn sent(&mut self, action: &Action, domain: &Domain) {
        self.account(action.owner(), domain).in_flight += 1;
    }

    /// Notes that a write was answered, or given up.
    pub(super) fn answered(&mut self, action: &Action) {
        if let Some(account) = self.accounts.get_mut(action.owner()) {
            account.in_flight = account.in_flight.saturating_sub(1);
        }
        self.drop_settled(action.owner());
    }

    /// Remembers what the view must show of an object before anybody plans for its owner.
    pub(super) fn expect(
        &mut self,
        (owner, domain): (&str, &Domain),
        (object, expectation): (Object, Expectation),
        now: Instant,
    ) {
        self.account(owner, domain).expectations.expect(object, expectation, now);
    }

    /// Remembers a write whose answer was lost.
    pub(super) fn lost_answer(&mut self, (owner, domain): (&str, &Domain), unknown: Unknown) {
        self.account(owner, domain).expectations.lost_answer(unknown);
    }

    /// Drops what has been seen of these owners.
    pub(super) fn look(
        &mut self,
        owners: &[Owner],
        view: impl Fn(&Object) -> (Option<Seen>, Option<u64>),
        now: Instant,
    ) {
        for owner in owners {
            if let Some(account) = self.accounts.get_mut(owner) {
                account.expectations.look(&view, now);
            }
            self.drop_settled(owner);
        }
    }

    /// The writes of these owners whose objects must be read, each with its owner.
    pub(super) fn to_read(&self, owners: &[Owner]) -> Vec<(Owner, Unknown)> {
        let known = owners.iter().filter_map(|owner| Some((owner, self.accounts.get(owner)?)));
        let unknown = known.flat_map(|(owner, account)| {
            account.expectations.to_read().iter().map(move |unknown| (Arc::clone(owner), unknown.clone()))
        });
        unknown.collect()
    }

    /// It is known what became of a write.
    pub(super) fn found_out(&mut self, owner: &str, unknown: &Unknown) {
        if let Some(account) = self.accounts.get_mut(owner) {
            account.expectations.found_out(unknown);
        }
        self.drop_settled(owner);
    }

    /// The kinds of the objects that are awaited for these owners, in their order.
    pub(super) fn awaited_kinds(&self, owners: &[Owner]) -> BTreeSet<Kind> {
        self.of(owners).flat_map(|account| account.expectations.awaited_kinds()).collect()
    }

    /// When the first wait of these owners for an object of this resource is over; `None` when none is awaited.
    pub(super) fn awaited_until(&self, owners: &[Owner], resource: Kind) -> Option<Instant> {
        self.of(owners).filter_map(|account| account.expectations.awaited_until(resource)).min()
    }

    /// Whether nothing is awaited of these owners.
    pub(super) fn is_settled(&self, owners: &[Owner]) -> bool {
        self.of(owners).all(Account::is_settled)
    }

    /// Whether it is unknown of some write what became of it.
    pub(super) fn has_unknown(&self) -> bool {
        self.accounts.values().any(|account| account.expectations.has_unknown())
    }

    fn of<'a>(&'a self, owners: &'a [Owner]) -> impl Iterator<Item = &'a Account> {
        owners.iter().filter_map(|owner| self.accounts.get(owner))
    }

    /// The account of an owner, under the domain that it is written for now.
    fn account(&mut self, owner: &str, domain: &Domain) -> &mut Account {
        let owner =
            self.accounts.get_key_value(owner).map_or_else(|| owner.into(), |(known, _)| Arc::clone(known));
        if let Some(account) = self.accounts.get(&owner).filter(|account| account.domain != *domain) {
            let before = account.domain.clone();
            self.unrecord(&before, &owner);
        }
        self.recorded.entry(domain.clone()).or_default().insert(Arc::clone(&owner));
        let new = || Account { domain: domain.clone(), expectations: Expectations::default(), in_flight: 0 };
        let account = self.accounts.entry(owner).or_insert_with(new);
        account.domain = domain.clone();
        account
    }

    fn drop_settled(&mut self, owner: &str) {
        if self.accounts.get(owner).is_some_and(Account::is_settled)
            && let Some((owner, account)) = self.accounts.remove_entry(owner)
        {
            self.unrecord(&account.domain, &owner);
        }
    }

    fn unrecord(&mut self, domain: &Domain, owner: &str) {
        if let Some(owners) = self.recorded.get_mut(domain) {
            owners.remove(owner);
            if owners.is_empty() {
                self.recorded.remove(domain);
            }
        }
    }
}

#[cfg(test)]
#[path = "ledger_tests.rs"]
mod tests;
