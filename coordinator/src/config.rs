//! Flags and environment.

use clap::Parser;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Accord's coordinator: registers node agents, numbers devices, opens sessions.
///
/// One runs per cluster. It is never on the way of a launch or a copy: programs go on while it
/// is down, and agents register again when it is back.
#[derive(Clone, Debug, Parser)]
#[command(name = "accord-coordinator", version)]
pub struct Config {
    /// Address and port to listen on; port 0 takes a free one, which is printed.
    #[arg(long, env = "ACCORD_LISTEN", value_name = "ADDR:PORT", default_value = "127.0.0.1:7447")]
    pub listen: SocketAddr,

    /// File with the cluster's key: 32 bytes or more, the same for all parts of the cluster.
    /// Make one with: head -c 32 /dev/urandom > KEYFILE
    #[arg(long, env = "ACCORD_KEY_FILE", value_name = "FILE")]
    pub key_file: PathBuf,

    /// Which messages go to standard error: off, error, warn, info, debug.
    #[arg(long, env = "ACCORD_LOG", value_name = "LEVEL", default_value = "warn")]
    pub log: tracing::level_filters::LevelFilter,

    /// Stop when standard input ends, as it does when the process that started this one dies.
    #[arg(long)]
    pub stop_on_stdin_eof: bool,
}
