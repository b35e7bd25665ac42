//! The coordinator as a process and over gRPC: calls, roles, limits, and hostile peers.

mod attacked;
mod calls;
#[path = "../crowd/mod.rs"]
mod crowd;
mod crowds;
mod crowds_unattested;
mod election;
#[path = "../etcd/mod.rs"]
#[allow(dead_code, reason = "other tests use the rest")]
mod etcd;
mod full_stderr;
mod munged;
mod page;
mod process;
mod requests;
mod roles;
mod session_before_answer;
mod several;
mod tenants;
mod uncertified;
mod watched;
mod watching;
