//! Everything that a cluster remembers: its objects, the table of kinds, its clock and its chance.

use std::sync::Arc;

use super::schema::{Definitions, DefinitionsError};
use super::service::{Gates, Settings};
use super::store::Store;
use super::stored::Stored;
use crate::chance;
use crate::clock::{self, Clock};
use crate::kinds::{Kind, Table};

/// What generated names end in: no vowels, so no words.
const SUFFIX_LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
/// Characters that a generated name ends in.
const SUFFIX_LENGTH: usize = 5;

/// Room for draws between two versions, in bits: a creation draws four times, a trial run without a version as often.
#[cfg(feature = "persist")]
const DRAWS_BITS: u32 = 20;

pub(crate) struct State {
    pub(crate) store: Store,
    pub(crate) table: Table,
    pub(crate) clock: Clock,
    pub(crate) gates: Gates,
    pub(crate) openapi: super::openapi::Cache,
    seed: u64,
    drawn: u64,
}

impl State {
    /// That of a cluster in which nothing is yet.
    pub(crate) fn of(settings: Settings) -> Result<Self, DefinitionsError> {
        let Settings { clock, seed, history, gates } = settings;
        let table = Table::new(Definitions::built_in()?, gates);
        Ok(State {
            store: Store::new(history),
            table,
            clock,
            gates,
            openapi: super::openapi::Cache::default(),
            seed,
            drawn: 0,
        })
    }

    /// Goes on from a version: nothing is drawn that was drawn before it.
    #[cfg(feature = "persist")]
    pub(crate) fn resume(&mut self, version: u64, journal: Arc<dyn super::journal::Journal>) {
        self.drawn = version << DRAWS_BITS;
        self.store.resume(version, journal);
    }

    /// The time of day as objects show it.
    pub(crate) fn now(&self) -> String {
        clock::whole_seconds(self.clock.timestamp())
    }

    fn draw(&mut self) -> u64 {
        self.drawn += 1;
        chance::draw(self.seed, &self.drawn.to_string())
    }

    /// A UID that has not been given before; the same seed gives the same ones.
    pub(crate) fn uid(&mut self) -> String {
        let (high, low) = (self.draw(), self.draw());
        let version = (high & 0xffff_ffff_ffff_0fff) | 0x4000;
        let variant = (low & 0x3fff_ffff_ffff_ffff) | 0x8000_0000_0000_0000;
        format!(
            "{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
            version >> 32,
            (version >> 16) & 0xffff,
            version & 0xffff,
            variant >> 48,
            variant & 0xffff_ffff_ffff
        )
    }

    /// What a generated name ends in.
    pub(crate) fn suffix(&mut self) -> String {
        let mut rest = self.draw();
        let letters = SUFFIX_LETTERS.len() as u64;
        let mut suffix = String::with_capacity(SUFFIX_LENGTH);
        for _ in 0..SUFFIX_LENGTH {
            let letter = usize::try_from(rest % letters).ok().and_then(|at| SUFFIX_LETTERS.get(at));
            suffix.extend(letter.map(|letter| char::from(*letter)));
            rest /= letters;
        }
        suffix
    }

    /// An object by the names of its kind.
    pub(crate) fn object(
        &self,
        group: &str,
        plural: &str,
        namespace: &str,
        name: &str,
    ) -> Option<&Arc<Stored>> {
        let kind = self.table.get(group, plural)?;
        self.store.get(&kind.key(namespace, name))
    }

    /// The objects of a kind, in one namespace or in all.
    pub(crate) fn objects(&self, group: &str, plural: &str, namespace: Option<&str>) -> Vec<Arc<Stored>> {
        let Some(kind) = self.table.get(group, plural) else {
            return Vec::new();
        };
        self.store.list(kind.id, namespace).map(|(_, object)| Arc::clone(object)).collect()
    }

    /// The row that a built-in controller needs; there is always one, but nobody should have to trust that.
    pub(crate) fn row(&self, group: &str, plural: &str) -> Option<Arc<Kind>> {
        self.table.get(group, plural).cloned()
    }
}
