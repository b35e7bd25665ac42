//! `accord setup`: sets up a standing cluster, machine by machine. Each command checks what exists, adds what is
//! missing, and prints both.

mod admit;
mod files;
mod member;
mod serve;
mod server;
mod service;
mod site;
mod steps;

use crate::failure::Result;
use crate::setup_args::{SetupArgs, SetupCommand};

/// Runs `accord setup`.
pub(crate) fn setup(args: &SetupArgs) -> Result<u8> {
    match &args.command {
        SetupCommand::Server(args) => server::server(args),
        SetupCommand::Admit(args) => admit::command(args),
        SetupCommand::Node(args) => member::node(args),
        SetupCommand::User(args) => member::user(args),
    }
}
