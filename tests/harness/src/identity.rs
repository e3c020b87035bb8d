//! Users of the API server, known to it by their tokens.

use std::{
    fmt::Write as _,
    sync::atomic::{AtomicUsize, Ordering},
};

/// How many scenarios and components one control plane can tell apart: the server reads its tokens at start,
/// so they are made in advance. A user without a grant may do nothing.
const POOL_SIZE: usize = 256;

/// Somebody who calls the API server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    name: String,
    user: String,
    token: String,
}

impl Identity {
    /// What the test calls it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What the API server calls it, in RBAC subjects and in the audit log.
    pub fn user(&self) -> &str {
        &self.user
    }

    /// Its bearer token.
    pub fn token(&self) -> &str {
        &self.token
    }

    fn new(user: &str) -> Self {
        // A guessable token would let any local user in, and behind a real node that means root.
        Self { name: user.into(), user: user.into(), token: format!("{:032x}", rand::random::<u128>()) }
    }
}

/// Every user that the API server knows.
#[derive(Debug)]
pub(crate) struct Identities {
    pub(crate) admin: Identity,
    pub(crate) controller_manager: Identity,
    pub(crate) scheduler: Identity,
    pool: Vec<Identity>,
    taken: AtomicUsize,
}

impl Identities {
    pub(crate) fn generate() -> Self {
        Self {
            admin: Identity::new("admin"),
            controller_manager: Identity::new("system:kube-controller-manager"),
            scheduler: Identity::new("system:kube-scheduler"),
            pool: (0..POOL_SIZE).map(|index| Identity::new(&format!("scenario-{index:03}"))).collect(),
            taken: AtomicUsize::new(0),
        }
    }

    /// A user that nobody else has; none when all are taken.
    pub(crate) fn take(&self, name: &str) -> Option<Identity> {
        let mut identity = self.pool.get(self.taken.fetch_add(1, Ordering::Relaxed))?.clone();
        name.clone_into(&mut identity.name);
        Some(identity)
    }

    /// The file for `--token-auth-file`: token, user, uid, groups.
    pub(crate) fn token_file(&self) -> String {
        let mut file = format!("{0},{1},{1},system:masters\n", self.admin.token, self.admin.user);
        for Identity { user, token, .. } in
            [&self.controller_manager, &self.scheduler].into_iter().chain(&self.pool)
        {
            // Writing to a string cannot fail.
            let _ = writeln!(file, "{token},{user},{user}");
        }
        file
    }
}
