//! The coordinator as a process and by gRPC: calls, roles, limits, and peers that attack.

mod attacked;
mod calls;
#[path = "../crowd/mod.rs"]
mod crowd;
mod crowds;
mod crowds_unattested;
#[path = "../etcd/mod.rs"]
#[allow(dead_code, reason = "other tests use the rest")]
mod etcd;
mod full_stderr;
mod munged;
mod process;
#[path = "../requests/mod.rs"]
mod requests;
mod roles;
mod several;
mod tenants;
mod told_first;
mod uncertified;
mod watched;
mod watching;
