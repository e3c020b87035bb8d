use jiff::Timestamp;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

use super::super::issue;
use super::validity;

fn made(until: &str) -> Vec<u8> {
    let until: Timestamp = until.parse().unwrap();
    let pem = issue::authority(until).unwrap().certificate;
    CertificateDer::from_pem_slice(pem.as_bytes()).unwrap().to_vec()
}

#[test]
fn the_time_of_a_certificate_is_read() {
    // Two years of the same century, and one that is written with four digits.
    for until in ["2027-03-01T12:34:56Z", "2049-12-31T23:59:59Z", "2061-01-02T03:04:05Z"] {
        let found = validity(&made(until)).unwrap();
        assert_eq!(found.until, until.parse().unwrap());
        assert_eq!(found.from, "2026-01-01T00:00:00Z".parse().unwrap());
    }
}

#[test]
fn what_is_no_certificate_has_no_time() {
    let whole = made("2027-03-01T00:00:00Z");
    // Cut off anywhere before the time, or changed at any byte: never a panic.
    for end in 0..whole.len() {
        let cut = &whole[..end];
        assert!(validity(cut).is_none(), "{end}");
    }
    for at in 0..whole.len() {
        for value in [0x00, 0x30, 0x7f, 0x80, 0x84, 0xff] {
            let mut changed = whole.clone();
            changed[at] = value;
            let _ = validity(&changed);
        }
    }
    for odd in [
        &b""[..],
        b"\x30",
        b"\x30\x84\xff\xff\xff\xff",
        b"\x30\x80\x00\x00",
        b"\x30\x85\x01\x01\x01\x01\x01",
        &[0xff; 64],
    ] {
        assert!(validity(odd).is_none(), "{odd:?}");
    }
}
