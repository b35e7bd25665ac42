//! Identities in a cluster, and their rights.
//!
//! * [`name`]: the name in a certificate: cluster and role. [`access`]: the acts that a role may perform.
//! * [`identity`]: a process's own certificate, and the authorities that it trusts. [`Trust`]: an identity that is read
//!   again when its files change.
//! * [`attest`]: callers without a certificate, attested by the system ([`local`]), by [`munge`] or by Kubernetes
//!   ([`token`], [`attester`]); [`users`]: which users are served.
//! * [`explain`]: causes and remedies of failed handshakes.
//! * [`lane`]: mutual authentication of lanes by the session's key.
//! * [`validity`]: the expiry of certificates.
//! * [`issue`]: creating certificates; [`join`]: issuing them over the network (feature `issue`).
#![forbid(unsafe_code)]

pub mod access;
pub mod attest;
pub mod attester;
#[cfg(feature = "issue")]
mod certificate_files;
mod config;
mod der;
pub mod explain;
pub mod identity;
#[cfg(feature = "issue")]
pub mod issue;
#[cfg(feature = "issue")]
pub mod join;
pub mod lane;
pub mod local;
pub mod munge;
pub mod name;
mod provider;
#[cfg(feature = "issue")]
pub mod register;
mod reload;
mod secret;
pub mod token;
pub mod users;
pub mod validity;
mod verify;

pub use identity::Identity;
pub use name::{PeerName, Role};
pub use provider::provider;
pub use reload::Trust;
pub use verify::Clients;
