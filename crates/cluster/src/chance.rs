//! Chance that repeats: the same seed and text give the same number on every machine and in every release.

/// A number that is spread evenly over all values, drawn from a seed and a text.
pub(crate) fn draw(seed: u64, text: &str) -> u64 {
    // FNV-1a reads the text, the finaliser of SplitMix64 spreads near-equal names apart.
    let read = text.bytes().fold(0xcbf2_9ce4_8422_2325 ^ seed, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let mixed = (read ^ (read >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}
