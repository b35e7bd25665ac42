//! Identities in a cluster, and the rights of each.
//!
//! * [`name`]: what a certificate says of its holder: cluster and role. [`access`]: what a role may do; pure.
//! * [`identity`]: a process's own certificate, and the authority that it believes. [`Trust`]: the same, read again when files change.
//! * [`attest`]: who shows no certificate, by the word of the system ([`local`]), of [`munge`] or of Kubernetes ([`token`], [`attester`]); [`users`]: whom that word is good for.
//! * [`explain`]: what went wrong in a handshake, for people.
//! * [`lane`]: lanes of sessions, which know each other by the session's key.
//! * [`validity`]: when certificates expire.
//! * [`issue`]: making certificates; [`join`]: handing them out over the network (feature `issue`).
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
