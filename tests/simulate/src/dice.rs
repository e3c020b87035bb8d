//! Chance, from the seed of a run and a name: what one part draws does not shift what another one draws.

use std::time::Duration;

use sts_plus_operator::shell::surroundings::Chance;

/// A row of numbers.
#[derive(Clone, Debug)]
pub struct Dice(Chance);

impl Dice {
    /// The row of this seed and name.
    pub fn new(seed: u64, name: &str) -> Self {
        let named = name.bytes().fold(seed, |mixed, byte| {
            Chance::seeded(mixed ^ u64::from(byte).wrapping_mul(0x0100_0000_01b3)).draw()
        });
        Self(Chance::seeded(named))
    }

    /// The next number.
    pub fn draw(&self) -> u64 {
        self.0.draw()
    }

    /// A number below `end`, which is not 0.
    pub fn below(&self, end: u64) -> u64 {
        self.draw() % end
    }

    /// A number of a range with both ends.
    pub fn among(&self, least: u64, most: u64) -> u64 {
        least + self.below(most - least + 1)
    }

    /// True in so many of a thousand cases.
    pub fn happens(&self, in_a_thousand: u64) -> bool {
        self.below(1000) < in_a_thousand
    }

    /// One of these.
    pub fn pick<'a, T>(&self, all: &'a [T]) -> Option<&'a T> {
        let at = usize::try_from(self.below(all.len().max(1) as u64)).ok()?;
        all.get(at)
    }

    /// A time of a range, in whole milliseconds.
    pub fn time(&self, least: Duration, most: Duration) -> Duration {
        let (least, most) = (millis(least), millis(most));
        Duration::from_millis(self.among(least, most.max(least)))
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
