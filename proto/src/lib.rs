//! The control plane's protocol between coordinator, agents and tools.
//!
//! [`v1`] is generated from `accord/v1/*.proto` and checked in; `tests/fresh.rs` proves it fresh. [`convert`] joins it
//! and `accord-types`; [`json`] shows rows of it. No other module reads raw messages.
#![forbid(unsafe_code)]

pub mod bounds;
pub mod channel;
pub mod codec;
pub mod convert;
pub mod json;
pub mod runtime;
pub mod stop;
mod stream;
pub mod threads;

use accord_types::protocol_version::ProtocolVersion;
pub use stream::Stream;

/// Messages, clients and servers of version 1.
#[allow(missing_docs, unreachable_pub, unused_qualifications, clippy::all, clippy::pedantic)]
pub mod v1 {
    include!("gen/accord.v1.rs");
}

/// Version of the protocol, which goes up once a release.
pub const VERSION: u32 = 1;
/// The versions of peers that are served. A release ignores fields and messages that it does not know, and sends no value
/// that the release before misunderstands.
pub const VERSIONS: ProtocolVersion = ProtocolVersion::new(VERSION, 1);
