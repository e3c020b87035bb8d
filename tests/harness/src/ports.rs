//! Loopback ports that are free now and stay free while their server restarts.

use std::{
    net::{Ipv4Addr, TcpListener},
    process,
    sync::atomic::{AtomicU32, Ordering},
};

/// First and count of the ports to choose from. They lie below the range from which Linux serves outgoing
/// connections (32768 and up): a client that keeps dialling a stopped server there ends up connected to
/// itself and holds the port.
const FIRST: u32 = 20_000;
const COUNT: u32 = 12_000;

/// How far apart two test processes with neighbouring ids start to search.
const STRIDE: u32 = 97;

static NEXT: AtomicU32 = AtomicU32::new(0);

/// A port that nothing listens on. Whoever takes it first has it: be ready to ask for another.
pub(crate) fn free() -> Option<u16> {
    let start = process::id().wrapping_mul(STRIDE);
    (0..COUNT).find_map(|_| {
        let offset = start.wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed)) % COUNT;
        let port = u16::try_from(FIRST + offset).ok()?;
        TcpListener::bind((Ipv4Addr::LOCALHOST, port)).ok().map(|_| port)
    })
}
