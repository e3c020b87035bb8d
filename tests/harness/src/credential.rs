//! What a client shows in the header `Authorization`.

use std::fmt;

use base64::{Engine, prelude::BASE64_STANDARD};

/// A token, or a user with a password. Its `Debug` tells only which of them it is.
#[derive(Clone, PartialEq, Eq)]
pub enum Credential {
    /// A bearer token.
    Bearer(String),
    /// Basic authentication.
    Basic {
        /// Who.
        user: String,
        password: String,
    },
}

impl Credential {
    /// A bearer token.
    pub fn bearer(token: &str) -> Self {
        Self::Bearer(token.into())
    }

    /// Basic authentication.
    pub fn basic(user: &str, password: &str) -> Self {
        Self::Basic { user: user.into(), password: password.into() }
    }

    /// The value of the header.
    pub fn header(&self) -> String {
        match self {
            Self::Bearer(token) => format!("Bearer {token}"),
            Self::Basic { user, password } => {
                format!("Basic {}", BASE64_STANDARD.encode(format!("{user}:{password}")))
            }
        }
    }
}

impl fmt::Debug for Credential {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Bearer(_) => "Bearer(..)",
            Self::Basic { .. } => "Basic(..)",
        })
    }
}
