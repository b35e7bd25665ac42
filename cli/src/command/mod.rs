//! One file per command.

pub(crate) mod admin;
pub(crate) mod bench;
pub(crate) mod compile;
pub(crate) mod cuf;
pub(crate) mod doctor;
pub(crate) mod explain;
pub(crate) mod generated;
mod held;
mod included;
pub(crate) mod info;
pub(crate) mod jobs;
pub(crate) mod lint;
pub(crate) mod logs;
mod outside;
pub(crate) mod page;
mod picture;
pub(crate) mod pki;
pub(crate) mod png;
pub(crate) mod policy;
pub(crate) mod quarantine;
pub(crate) mod reservation;
pub(crate) mod run;
pub(crate) mod setup;
pub(crate) mod top;
pub(crate) mod trace;
mod unopened;
pub(crate) mod version;
