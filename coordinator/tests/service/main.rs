//! The coordinator as a process and by gRPC: calls, roles, limits, and peers that attack.

mod attacked;
mod calls;
#[path = "../crowd/mod.rs"]
mod crowd;
mod crowds;
mod crowds_unattested;
mod full_stderr;
mod munged;
mod page;
mod process;
#[path = "../requests/mod.rs"]
mod requests;
mod roles;
mod tenants;
mod told_first;
mod uncertified;
mod watched;
mod watching;
