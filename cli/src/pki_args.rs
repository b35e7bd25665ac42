//! The options of `accord pki`.

use clap::{Args, Subcommand, ValueEnum};
use std::path::PathBuf;

/// `accord pki`.
#[derive(Args, Debug)]
pub(crate) struct PkiArgs {
    #[command(subcommand)]
    pub(crate) command: PkiCommand,
}

#[derive(Subcommand, Debug)]
pub(crate) enum PkiCommand {
    /// Create a cluster's certificate authority, in a folder that only you can read.
    Init {
        /// The folder; nothing in it is overwritten.
        #[arg(value_name = "AUTHORITY")]
        folder: PathBuf,
        /// The cluster's name [default: this machine's].
        #[arg(long, value_name = "NAME")]
        cluster: Option<String>,
        /// Days for which it is valid.
        #[arg(long, default_value_t = 3650, value_parser = clap::value_parser!(u32).range(1..=36500))]
        days: u32,
    },
    /// Issue a certificate: a folder with ca.crt, tls.crt and tls.key, which its holder names in ACCORD_TLS.
    Issue {
        /// The authority's folder.
        #[arg(value_name = "AUTHORITY")]
        folder: PathBuf,
        /// Role of the certificate's holder.
        #[arg(value_name = "ROLE", value_enum)]
        role: PkiRole,
        /// Name of the holder: the agent's node, the tenant's user, the admin's name.
        #[arg(value_name = "NAME")]
        name: Option<String>,
        /// The certificate's folder; nothing in it is overwritten.
        #[arg(long, short, value_name = "FOLDER")]
        out: PathBuf,
        /// Days for which it is valid.
        #[arg(long, default_value_t = 365, value_parser = clap::value_parser!(u32).range(1..=36500))]
        days: u32,
    },
    /// List certificates, and the days left for each.
    List {
        /// Folders of certificates, or an authority's, which lists what it has issued [default: this machine's and this user's].
        #[arg(value_name = "FOLDER")]
        folders: Vec<PathBuf>,
        /// Print JSON, for programs.
        #[arg(long)]
        json: bool,
    },
    /// Replace certificates by new ones for the same holders. Running processes load them by themselves.
    Renew {
        /// The authority's folder.
        #[arg(value_name = "AUTHORITY")]
        folder: PathBuf,
        /// Folders that accord pki issue has made.
        #[arg(value_name = "FOLDER", required = true)]
        certificates: Vec<PathBuf>,
        /// Days for which the new ones are valid.
        #[arg(long, default_value_t = 365, value_parser = clap::value_parser!(u32).range(1..=36500))]
        days: u32,
    },
}

/// Role of the holder of a certificate.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum PkiRole {
    /// The cluster's coordinator.
    Coordinator,
    /// A node's agent.
    Agent,
    /// A user whose programs use the cluster.
    Tenant,
    /// An administrator, who drains nodes, ends sessions and stops the cluster.
    Admin,
}
