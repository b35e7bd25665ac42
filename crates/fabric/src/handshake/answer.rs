//! A server's messages in a handshake.

use super::hello::{MAGIC, NONCE_LEN, VERSIONS};
use crate::key::MAC_LEN;
use accord_types::Error;

/// Bytes of an answer's beginning, which no version changes.
pub(super) const ANSWER_LEN: usize = 16;
/// Length of the rest of the first answer: nonce and proof.
pub(super) const CHALLENGE_LEN: usize = NONCE_LEN + MAC_LEN;
/// Longest text of a refusal.
pub(super) const REFUSAL_MAX: usize = 1024;

/// Verdicts of an answer: accepted, refused, or refused for now. All other values are refusals too.
pub(super) const WELCOME: u16 = 0;
pub(super) const REFUSED: u16 = 1;
pub(super) const REFUSED_FOR_NOW: u16 = 2;

/// Returns the beginning of an answer, after which `length` bytes follow.
pub(super) fn answer(verdict: u16, length: usize) -> [u8; ANSWER_LEN] {
    let mut bytes = [0; ANSWER_LEN];
    bytes[..8].copy_from_slice(&MAGIC);
    bytes[8..12].copy_from_slice(&VERSIONS.own().to_le_bytes());
    bytes[12..14].copy_from_slice(&verdict.to_le_bytes());
    bytes[14..].copy_from_slice(&u16::try_from(length).unwrap_or(u16::MAX).to_le_bytes());
    bytes
}

/// Returns the answer that gives a client the reason of its refusal, and whether to try again.
pub(crate) fn refusal(error: &Error) -> Vec<u8> {
    let remedy = error.remedy_text().map(|remedy| format!("; {remedy}")).unwrap_or_default();
    let text = format!("{}{remedy}", error.cause());
    let text = &text.as_bytes()[..text.len().min(REFUSAL_MAX)];
    let verdict = if error.is_transient() { REFUSED_FOR_NOW } else { REFUSED };
    [&answer(verdict, text.len())[..], text].concat()
}
