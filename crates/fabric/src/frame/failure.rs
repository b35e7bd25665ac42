//! Errors on the wire.

use accord_types::{Error, ErrorCode, QueueId};
use rkyv::{Archive, Deserialize, Serialize};

/// Longest text of an error on the wire.
const TEXT_MAX: usize = 4096;
/// The queue number of an error without a queue.
const NO_QUEUE: u32 = 0xffff_fff1;

/// The fixed part of an error; cause, remedy and node are the payload.
#[derive(Archive, Serialize, Deserialize, Clone, Copy, PartialEq, Eq, Debug)]
pub struct Failure {
    code: u16,
    /// [`Error::is_lane_end`] of the error.
    lane_ended: bool,
    queue: u32,
}

impl Failure {
    /// Returns the record of an error with this wire number and no queue.
    pub fn new(code: u16) -> Self {
        Self { code, lane_ended: false, queue: NO_QUEUE }
    }

    /// Whether the error only reports that a lane has ended.
    pub fn is_lane_end(&self) -> bool {
        self.lane_ended
    }
}

/// Splits an error into its record and its payload, which is appended to `text`.
pub fn encode_error(error: &Error, text: &mut Vec<u8>) -> Failure {
    let place = error.place();
    let parts = [
        error.cause(),
        error.remedy_text().unwrap_or_default(),
        place.node.as_deref().unwrap_or_default(),
        place.call.as_deref().unwrap_or_default(),
    ];
    for (i, part) in parts.iter().enumerate() {
        if i > 0 {
            text.push(0);
        }
        let mut end = part.len().min(TEXT_MAX);
        while !part.is_char_boundary(end) {
            end -= 1;
        }
        // A zero byte would end the part early.
        text.extend(part.as_bytes()[..end].iter().filter(|&&byte| byte != 0));
    }
    let queue = place.queue.map_or(NO_QUEUE, |queue| queue.0);
    Failure { code: error.code().to_wire(), lane_ended: error.is_lane_end(), queue }
}

/// Returns the error of a record and its payload. Malformed bytes yield an error too.
pub fn decode_error(failure: Failure, text: &[u8]) -> Error {
    let mut parts = text
        .split(|&byte| byte == 0)
        .map(|part| String::from_utf8_lossy(&part[..part.len().min(TEXT_MAX)]).into_owned());
    let cause = parts.next().unwrap_or_default();
    let mut error = Error::new(ErrorCode::from_wire(failure.code), cause);
    if let Some(remedy) = parts.next().filter(|text| !text.is_empty()) {
        error = error.remedy(remedy);
    }
    if let Some(node) = parts.next().filter(|text| !text.is_empty()) {
        error = error.node(node);
    }
    if let Some(call) = parts.next().filter(|text| !text.is_empty()) {
        error = error.call(call);
    }
    if failure.queue != NO_QUEUE {
        error = error.queue(QueueId(failure.queue));
    }
    if failure.lane_ended {
        error = error.lane_ended();
    }
    error
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn an_error_comes_back_whole() {
        let plain = Error::new(ErrorCode::OutOfMemory, "4 GiB wanted, 1 GiB left");
        let full = plain.clone().remedy("ask for less").node("h2").queue(QueueId::SYNC).call("launch");
        for error in [plain, full.clone(), full.lane_ended()] {
            let mut text = Vec::new();
            let failure = encode_error(&error, &mut text);
            assert_eq!(decode_error(failure, &text), error);
        }
    }

    #[test]
    fn any_bytes_are_some_error() {
        proptest!(|(code: u16, lane_ended: bool, queue: u32, text: Vec<u8>)| {
            let _ = decode_error(Failure { code, lane_ended, queue }, &text).to_string();
        });
    }
}
