//! Bytes that arrive before a user is authenticated: answers of MUNGE's daemon, Kubernetes' API server and a coordinator, and tokens.

use super::first;
use crate::{Memory, Target};
use accord_coordinator::service::reviewed;
use accord_trust::{attest, munge, token};
use accord_types::{Error, ErrorCode, service_account};

/// Answers of every kind.
pub(super) const ANSWERS: Target = Target {
    name: "answers",
    run: answers,
    seeds,
    words: &["MUNGE:", "TOKEN:", "\"audiences\":[\"accord\"]", "\x00\x60\x6d\x4b\x04\x05\x00"],
    input_max: 1 << 10,
    memory: Memory { fixed: 16 << 10, per_byte: 16 },
    inputs: 60_000,
};

const DECODED: u8 = 5;

fn answers(mut bytes: &[u8]) {
    match first(&mut bytes) % 4 {
        0 => drop(munge::encoded(bytes)),
        1 => {
            if let Ok(believed) = munge::decoded(bytes) {
                assert!(believed.payload.len() <= bytes.len());
            }
        }
        2 => {
            if let Some(header) = bytes.first_chunk() {
                let _ = munge::body_len(header, DECODED);
            }
        }
        _ => {
            if let Ok(user) = reviewed(bytes, "a.b.c", "the server") {
                assert!(service_account::namespace(&user).is_some());
            }
            if let Ok(Some(token)) = token::of_credential(bytes) {
                assert!(token.bytes().all(|byte| byte.is_ascii_graphic()));
            }
            // A coordinator's refusal is printed without control characters of terminals.
            let reported = attest::words(bytes);
            assert!(!reported.chars().any(char::is_control));
            let printed = attest::refusal(&Error::new(ErrorCode::System, String::from_utf8_lossy(bytes)));
            assert!(
                printed.len() <= 3 + attest::REFUSAL_MAX
                    && attest::words_len([printed[1], printed[2]]) == printed.len() - 3
            );
        }
    }
}

fn seeds() -> Vec<Vec<u8>> {
    let decoded = b"\x00\x00\x04\x05\x00\x00\x00\x00\x01\x2c\x04\x7f\x00\x00\x01\x6b\x03\xde\x6f\x6b\x03\xde\x6f\
        \x00\x00\x03\xe9\x00\x00\x03\xea\xff\xff\xff\xff\xff\xff\xff\xff\x00\x00\x00\x05hello";
    let header = [0, 0x60, 0x6d, 0x4b, 4, DECODED, 0, 0, 0, 0, 48];
    vec![
        b"\x00\x00\x00\x00\x00\x00\x06MUNGE\0".to_vec(),
        [&[1], &decoded[..]].concat(),
        [&[2], &header[..]].concat(),
        b"\x03this coordinator does not take user bob".to_vec(),
        b"\x03TOKEN:a.b.c".to_vec(),
        b"\x03{\"kind\":\"TokenReview\",\"status\":{\"authenticated\":true,\"user\":{\"username\":\"system:serviceaccount:a:b\"},\"audiences\":[\"accord\"]}}"
            .to_vec(),
    ]
}
