//! The coordinator as a process and over gRPC: calls, roles, limits, and hostile peers.

mod attacked;
mod calls;
#[path = "../crowd/mod.rs"]
mod crowd;
mod crowds;
mod crowds_unattested;
mod full_stderr;
mod munged;
mod process;
mod requests;
mod roles;
mod tenants;
mod told_first;
mod uncertified;
mod watched;
mod watching;
