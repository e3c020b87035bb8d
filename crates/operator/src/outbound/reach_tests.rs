use std::net::IpAddr;

use super::{Reach, Refusal};

fn refusal(reach: Reach, address: &str) -> Option<Refusal> {
    reach.refusal(address.parse::<IpAddr>().unwrap())
}

const LOOPBACK: [&str; 5] = ["127.0.0.1", "127.8.8.8", "::1", "::ffff:127.0.0.1", "64:ff9b::7f00:1"];

const LINK_LOCAL: [&str; 10] = [
    "169.254.0.1",
    "169.254.169.254",
    "::ffff:169.254.169.254",
    "64:ff9b::a9fe:a9fe",
    "fe80::1",
    "febf::1",
    "fd00:ec2::254",
    "fd20:ce::254",
    "100.100.100.200",
    "168.63.129.16",
];

const NO_HOST: [&str; 7] =
    ["0.0.0.0", "0.1.2.3", "::", "224.0.0.1", "ff02::1", "255.255.255.255", "::ffff:0.0.0.0"];

const OTHERS: [&str; 8] = [
    "10.96.0.10",
    "192.168.1.1",
    "8.8.8.8",
    "100.64.0.1",
    "2001:db8::1",
    "fd00::1",
    "fec0::1",
    "::ffff:10.0.0.1",
];

#[test]
fn by_default_only_ordinary_addresses_are_asked() {
    let reach = Reach::default();
    for address in LOOPBACK {
        assert_eq!(refusal(reach, address), Some(Refusal::Loopback), "{address}");
    }
    for address in LINK_LOCAL {
        assert_eq!(refusal(reach, address), Some(Refusal::LinkLocal), "{address}");
    }
    for address in NO_HOST {
        assert_eq!(refusal(reach, address), Some(Refusal::NotAHost), "{address}");
    }
    for address in OTHERS {
        assert_eq!(refusal(reach, address), None, "{address}");
    }
}

#[test]
fn each_flag_allows_its_own_and_no_more() {
    let loopback = Reach { loopback: true, link_local: false };
    let link_local = Reach { loopback: false, link_local: true };
    for address in LOOPBACK {
        assert_eq!(refusal(loopback, address), None, "{address}");
        assert_eq!(refusal(link_local, address), Some(Refusal::Loopback), "{address}");
    }
    for address in LINK_LOCAL {
        assert_eq!(refusal(link_local, address), None, "{address}");
        assert_eq!(refusal(loopback, address), Some(Refusal::LinkLocal), "{address}");
    }
    for address in NO_HOST {
        assert_eq!(
            refusal(Reach { loopback: true, link_local: true }, address),
            Some(Refusal::NotAHost),
            "{address}"
        );
    }
}
