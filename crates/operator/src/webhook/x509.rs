//! When a certificate is valid, read from its DER form; everything else about it is checked by rustls.

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::Offset;

const SEQUENCE: u8 = 0x30;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;
/// The version of a certificate, which version 1 leaves out.
const VERSION: u8 = 0xa0;

/// The time in which a certificate is valid, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Validity {
    pub(super) from: Timestamp,
    pub(super) until: Timestamp,
}

/// The validity of a certificate, if it is one.
pub(super) fn validity(der: &[u8]) -> Option<Validity> {
    let mut certificate = Elements(Elements(der).expect(SEQUENCE)?);
    let mut body = Elements(certificate.expect(SEQUENCE)?);
    let (tag, _) = body.next()?;
    if tag == VERSION {
        body.next()?; // the serial number
    }
    body.expect(SEQUENCE)?; // the algorithm
    body.expect(SEQUENCE)?; // the issuer
    let mut validity = Elements(body.expect(SEQUENCE)?);
    let from = time(validity.next()?)?;
    Some(Validity { from, until: time(validity.next()?)? })
}

/// The elements of a DER text, one after the other.
struct Elements<'a>(&'a [u8]);

impl<'a> Elements<'a> {
    /// The next element's tag and content.
    fn next(&mut self) -> Option<(u8, &'a [u8])> {
        let (&tag, rest) = self.0.split_first()?;
        let (&first, rest) = rest.split_first()?;
        let (length, rest) = if first < 0x80 {
            (usize::from(first), rest)
        } else {
            // Four bytes are 4 GiB; an indefinite length (none) is not DER.
            let (bytes, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
            let fits = (1..=4).contains(&bytes.len());
            (fits.then(|| bytes.iter().fold(0, |length, byte| length << 8 | usize::from(*byte)))?, rest)
        };
        let (content, rest) = rest.split_at_checked(length)?;
        self.0 = rest;
        Some((tag, content))
    }

    /// The content of the next element, which must have this tag.
    fn expect(&mut self, tag: u8) -> Option<&'a [u8]> {
        self.next().filter(|(found, _)| *found == tag).map(|(_, content)| content)
    }
}

/// `YYMMDDHHMMSSZ` or `YYYYMMDDHHMMSSZ`, in UTC.
fn time((tag, content): (u8, &[u8])) -> Option<Timestamp> {
    let digits = std::str::from_utf8(content).ok()?.strip_suffix('Z')?;
    if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let (year, rest) = match tag {
        UTC_TIME => {
            let (year, rest) = digits.split_at_checked(2)?;
            let year: i16 = year.parse().ok()?;
            (if year < 50 { 2000 + year } else { 1900 + year }, rest)
        }
        GENERALIZED_TIME => {
            let (year, rest) = digits.split_at_checked(4)?;
            (year.parse().ok()?, rest)
        }
        _ => return None,
    };
    let part = |at: usize| rest.get(at..at + 2)?.parse().ok();
    if rest.len() != 10 {
        return None;
    }
    let at = DateTime::new(year, part(0)?, part(2)?, part(4)?, part(6)?, part(8)?, 0).ok()?;
    Offset::UTC.to_timestamp(at).ok()
}

#[cfg(test)]
#[path = "x509_tests.rs"]
mod tests;
