//! The address that a user writes, read the way it was meant.

use std::fmt;
use std::net::IpAddr;

use http::Uri;
use thiserror::Error;

/// Where the instant query of the Prometheus API is, below the path of the base address.
const QUERY_PATH: &str = "/api/v1/query";

/// Why an address cannot be used. None of the texts repeats the address: it may hold a password.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum EndpointError {
    /// Another scheme.
    #[error("url: only http and https are supported, not {0}")]
    Scheme(String),
    /// A user name or a password.
    #[error(
        "url: it must not hold a user name or a password; put them into a Secret and name it in secretRef"
    )]
    UserInfo,
    #[error("url: it must not hold a query (?...); it is the base address, without {QUERY_PATH}")]
    Query,
    #[error("url: it must not hold a fragment (#...); it is the base address, without {QUERY_PATH}")]
    Fragment,
    #[error("url: it names no host")]
    NoHost,
    /// A port that is none.
    #[error("url: the port must be a number from 1 to 65535")]
    Port,
    /// Anything else.
    #[error("url: {0}")]
    Unreadable(String),
}

/// A server that answers queries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    pub(super) site: Site,
    /// The path of the instant query.
    pub(super) path: String,
    /// Host and port as they were written, for the Host header.
    pub(super) authority: String,
    scheme_assumed: bool,
}

/// What is connected to.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Site {
    pub(super) https: bool,
    /// A name, or an address without brackets.
    pub(super) host: String,
    pub(super) port: u16,
}

impl Endpoint {
    /// Reads a base address. A missing scheme means http.
    pub fn parse(url: &str) -> Result<Self, EndpointError> {
        let url = url.trim();
        if url.contains('#') {
            return Err(EndpointError::Fragment);
        }
        let (scheme, rest) = url.split_once("://").map_or((None, url), |(scheme, rest)| (Some(scheme), rest));
        let https = match scheme {
            None => false,
            Some(scheme) if scheme.eq_ignore_ascii_case("http") => false,
            Some(scheme) if scheme.eq_ignore_ascii_case("https") => true,
            // What stands before the first colon may be a user name.
            Some(scheme) if scheme.contains(['@', '/', '?', ':']) => return Err(malformed(scheme)),
            Some(scheme) => return Err(EndpointError::Scheme(format!("{scheme:?}"))),
        };
        let (authority, path) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
        if authority.contains('@') {
            return Err(EndpointError::UserInfo);
        }
        let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
        let uri = Uri::builder()
            .scheme(if https { "https" } else { "http" })
            .authority(authority)
            .path_and_query(path)
            .build()
            .map_err(|error| if authority.is_empty() { EndpointError::NoHost } else { unreadable(&error) })?;
        if uri.query().is_some() {
            return Err(EndpointError::Query);
        }
        let host = uri.host().unwrap_or_default().trim_start_matches('[').trim_end_matches(']').to_owned();
        if host.is_empty() {
            return Err(EndpointError::NoHost);
        }
        let port = match uri.port_u16() {
            Some(0) => return Err(EndpointError::Port),
            Some(port) => port,
            None if names_a_port(authority) => return Err(EndpointError::Port),
            None if https => 443,
            None => 80,
        };
        Ok(Self {
            path: format!("{}{QUERY_PATH}", uri.path().trim_end_matches('/')),
            authority: authority.to_owned(),
            site: Site { https, host: host.to_ascii_lowercase(), port },
            scheme_assumed: scheme.is_none(),
        })
    }

    /// Whether the scheme was missing, which is worth a warning.
    pub fn scheme_was_assumed(&self) -> bool {
        self.scheme_assumed
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.site.https { "https" } else { "http" };
        let prefix = self.path.strip_suffix(QUERY_PATH).unwrap_or_default();
        write!(f, "{scheme}://{}{prefix}", self.authority)
    }
}

impl Site {
    /// The address, where the host is one.
    pub(super) fn address(&self) -> Option<IpAddr> {
        self.host.parse().ok()
    }
}

/// What a text with "://" in the wrong place is.
fn malformed(before: &str) -> EndpointError {
    if before.contains('@') {
        EndpointError::UserInfo
    } else if before.contains('?') {
        EndpointError::Query
    } else {
        EndpointError::Unreadable("it is not an address such as http://prometheus:9090/prefix".to_owned())
    }
}

fn unreadable(error: &http::Error) -> EndpointError {
    EndpointError::Unreadable(format!("{error}; an address is written like http://prometheus:9090/prefix"))
}

/// Whether something stands after the colon of the port, or should.
fn names_a_port(authority: &str) -> bool {
    authority.rsplit_once(']').map_or(authority, |(_, after)| after).contains(':')
}

#[cfg(test)]
#[path = "endpoint_tests.rs"]
mod endpoint_tests;
