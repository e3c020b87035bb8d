//! Which addresses may be asked.
//!
//! The operator stands where others do not: next to the node's own services and the cloud's metadata. Whoever may
//! create a rollout must not get to look at them through the operator's eyes.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Metadata and host services of clouds outside the link-local ranges: AWS and Google over IPv6, Alibaba, Azure.
const METADATA: [IpAddr; 4] = [
    IpAddr::V6(Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254)),
    IpAddr::V6(Ipv6Addr::new(0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254)),
    IpAddr::V4(Ipv4Addr::new(100, 100, 100, 200)),
    IpAddr::V4(Ipv4Addr::new(168, 63, 129, 16)),
];

/// What a gateway that translates to IPv4 listens to: the address is in the last 32 bits.
const TRANSLATED: [u16; 6] = [0x64, 0xff9b, 0, 0, 0, 0];

/// What may be asked besides the addresses that anybody may ask.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reach {
    /// Loopback addresses.
    pub loopback: bool,
    /// Link-local and metadata addresses.
    pub link_local: bool,
}

/// Why an address is not asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    Loopback,
    LinkLocal,
    /// Unspecified, multicast or broadcast.
    NotAHost,
}

impl Refusal {
    /// What is the matter and what would change it.
    pub(super) fn words(self) -> &'static str {
        match self {
            Self::Loopback => "a loopback address, refused unless the operator runs with --allow-loopback",
            Self::LinkLocal => {
                "a link-local or metadata address, refused unless the operator runs with --allow-link-local"
            }
            Self::NotAHost => "an unspecified, multicast or broadcast address, which is no server's",
        }
    }
}

impl Reach {
    /// Why an address may not be asked; `None` when it may.
    pub(super) fn refusal(self, address: IpAddr) -> Option<Refusal> {
        let address = meant(address);
        if is_no_host(address) {
            Some(Refusal::NotAHost)
        } else if address.is_loopback() {
            (!self.loopback).then_some(Refusal::Loopback)
        } else if is_link_local(address) || METADATA.contains(&address) {
            (!self.link_local).then_some(Refusal::LinkLocal)
        } else {
            None
        }
    }
}

/// The IPv4 address inside an IPv6 one, where that is where packets end up.
fn meant(address: IpAddr) -> IpAddr {
    let address = address.to_canonical();
    if let IpAddr::V6(v6) = address
        && v6.segments().starts_with(&TRANSLATED)
    {
        let [.., a, b, c, d] = v6.octets();
        return IpAddr::V4(Ipv4Addr::new(a, b, c, d));
    }
    address
}

fn is_no_host(address: IpAddr) -> bool {
    // Linux takes 0.0.0.0 for the machine itself, and nothing of 0.0.0.0/8 is anybody's address.
    let this_network =
        matches!(address, IpAddr::V4(v4) if v4.octets().starts_with(&[0]) || v4.is_broadcast());
    this_network || address.is_unspecified() || address.is_multicast()
}

fn is_link_local(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => v4.is_link_local(),
        IpAddr::V6(v6) => v6.is_unicast_link_local(),
    }
}

#[cfg(test)]
#[path = "reach_tests.rs"]
mod reach_tests;
