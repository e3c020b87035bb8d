//! All scripts, by topic. A name is a sentence that begins with what is claimed: both do the same.

use super::bout::Script;
pub use identity::pod;
pub use trouble::{broken_revision, quota, too_long};

mod claims;
mod history;
mod identity;
mod retention;
mod scaling;
mod trouble;
mod updating;

/// Scripts from functions of the same name.
macro_rules! scripts {
    ($($name:ident),* $(,)?) => {
        vec![$(crate::native::bout::Script { name: stringify!($name), play: |act| Box::pin($name(act)) }),*]
    };
}
use scripts;

/// Every script, the long ones first, so that none is left alone at the end.
pub fn all() -> Vec<Script> {
    [
        trouble::all(),
        retention::all(),
        scaling::all(),
        updating::all(),
        claims::all(),
        identity::all(),
        history::all(),
    ]
    .concat()
}
