//! The protocol name that a client of the coordinator sends before it is authenticated.

use crate::{Memory, Target};
use accord_fabric::session_endpoint;
use accord_proto::channel;
use accord_trust::attest::PROTOCOL_MAX;

/// The coordinator's module is private, so this includes its file.
#[path = "../../../coordinator/src/service/protocol.rs"]
mod code;

use code::{Protocol, name_len};

/// A name as in TLS's ALPN, and the first message on a UNIX socket.
pub(super) const PROTOCOLS: Target = Target {
    name: "protocols",
    run: protocols,
    seeds,
    words: &["h2", session_endpoint::PROTOCOL, "accord-session/", "http/1.1"],
    input_max: 300,
    memory: Memory { fixed: 4 << 10, per_byte: 1 },
    inputs: 60_000,
};

fn protocols(bytes: &[u8]) {
    known(bytes);
    let Some((printed, rest)) = bytes.split_first() else { return };
    let len = name_len(*printed);
    assert!(len <= PROTOCOL_MAX);
    if let Some(name) = rest.get(..len) {
        known(name);
    }
}

fn known(name: &[u8]) {
    match Protocol::named(name) {
        Ok(Protocol::Grpc) => assert_eq!(name, channel::PROTOCOL),
        Ok(Protocol::Session) => assert!(session_endpoint::version_named(name).is_some()),
        Err(error) => assert!(error.remedy_text().is_some()),
    }
}

fn seeds() -> Vec<Vec<u8>> {
    let names = [channel::PROTOCOL, session_endpoint::PROTOCOL.as_bytes()];
    let printed = names.map(|name| [&[u8::try_from(name.len()).unwrap()], name].concat());
    names.iter().map(|name| name.to_vec()).chain(printed).collect()
}
