//! The protocol of a client, by its ALPN name or the first message on a UNIX socket.

use accord_fabric::session_endpoint;
use accord_proto::channel;
use accord_trust::attest::PROTOCOL_MAX;
use accord_types::protocol_version::UPGRADE;
use accord_types::{Error, ErrorCode, Result, printable};

/// The protocol of a client.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Protocol {
    /// The control plane.
    Grpc,
    /// Programs at the session endpoint.
    Session,
}

impl Protocol {
    /// Returns the protocol with this name.
    ///
    /// # Errors
    /// Returns `acc_error_device_unavailable` if no protocol has this name.
    pub(super) fn named(name: &[u8]) -> Result<Self> {
        match name {
            name if name == channel::PROTOCOL => Ok(Self::Grpc),
            name if session_endpoint::version_named(name).is_some() => Ok(Self::Session),
            _ => {
                let own = session_endpoint::protocols().next().unwrap_or_default();
                let theirs = printable(&String::from_utf8_lossy(name)).to_string();
                let why = format!("it speaks \"{theirs}\", and this coordinator {own}");
                Err(Error::new(ErrorCode::DeviceUnavailable, why).remedy(UPGRADE))
            }
        }
    }
}

/// Returns how many bytes of a name to read, at most the longest name's.
pub(super) fn name_len(printed: u8) -> usize {
    usize::from(printed).min(PROTOCOL_MAX)
}
