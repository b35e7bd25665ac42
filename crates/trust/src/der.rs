//! Elements of DER, the encoding of keys and certificates.

pub(crate) const INTEGER: u8 = 0x02;
pub(crate) const OCTET_STRING: u8 = 0x04;
pub(crate) const SEQUENCE: u8 = 0x30;

/// Returns the contents of the element with this tag at the beginning of `der`, and the bytes after it.
pub(crate) fn element(tag: u8, der: &[u8]) -> Option<(&[u8], &[u8])> {
    let (&[own, length], rest) = der.split_first_chunk()?;
    let (length, rest) = match length {
        0..=0x7f => (usize::from(length), rest),
        0x81 => rest.split_first().map(|(length, rest)| (usize::from(*length), rest))?,
        0x82 => rest.split_first_chunk().map(|(length, rest)| (usize::from(u16::from_be_bytes(*length)), rest))?,
        _ => return None,
    };
    (own == tag).then(|| rest.split_at_checked(length)).flatten()
}
