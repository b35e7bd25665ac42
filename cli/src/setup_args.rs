//! The options of `accord setup`.

use accord_types::settings;
use accord_types::unknown_settings::unknown_settings;
use clap::{Args, Subcommand};
use std::path::PathBuf;

/// Port of the coordinator.
pub(crate) const COORDINATOR_PORT: u16 = 7447;

/// `accord setup`.
#[derive(Args, Debug)]
pub(crate) struct SetupArgs {
    #[command(subcommand)]
    pub(crate) command: SetupCommand,
}

#[derive(Subcommand, Debug)]
pub(crate) enum SetupCommand {
    /// Make this machine a cluster's coordinator, as root: account, authority, certificate, settings, service. Then hand out certificates to
    /// the named nodes and users. Existing parts stay; the same command run again continues where it stopped.
    Server(ServerArgs),
    /// Hand out further certificates, on the machine that has the authority: print a line for each node, user or administrator to enter there, and wait.
    Admit(AdmitArgs),
    /// Make this machine a node of a cluster, as root, by the line that the server has printed.
    Node(NodeArgs),
    /// Get a user's or an administrator's certificate, as that user, by the line that the server has printed.
    User(UserArgs),
}

/// `accord setup server`.
#[derive(Args, Debug)]
pub(crate) struct ServerArgs {
    /// The cluster's name in its certificates [default: this machine's name].
    #[arg(long, value_name = "NAME")]
    pub(crate) cluster: Option<String>,
    /// The site's policy: it is checked, and copied to /etc/accord/policy.toml [default: none; all users share all devices].
    #[arg(long, value_name = "FILE")]
    pub(crate) policy: Option<PathBuf>,
    /// A further setting of the coordinator, such as ACCORD_METRICS_LISTEN=0.0.0.0:9447.
    #[arg(long = "set", value_name = "NAME=VALUE", value_parser = setting)]
    pub(crate) settings: Vec<(String, String)>,
    #[command(flatten)]
    pub(crate) admit: AdmitArgs,
    /// Change nothing, and print what would be done.
    #[arg(long)]
    pub(crate) dry_run: bool,
}

/// `accord setup admit`.
#[derive(Args, Debug)]
pub(crate) struct AdmitArgs {
    /// A node, by its `uname -n`.
    #[arg(long = "node", value_name = "NAME")]
    pub(crate) nodes: Vec<String>,
    /// A user whose programs use the cluster.
    #[arg(long = "user", value_name = "NAME")]
    pub(crate) users: Vec<String>,
    /// An administrator, who drains nodes, ends sessions and applies the policy.
    #[arg(long = "admin", value_name = "NAME")]
    pub(crate) admins: Vec<String>,
    /// Host name of this machine for nodes and users, and the coordinator's port if it is not 7447 [default: this machine's name].
    #[arg(long, value_name = "HOST[:PORT]")]
    pub(crate) address: Option<String>,
    /// Port at which certificates are handed out while this command runs.
    #[arg(long, value_name = "PORT", default_value_t = 7449)]
    pub(crate) join_port: u16,
    /// Minutes for which the printed lines are valid.
    #[arg(long, value_name = "MINUTES", default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..=1440))]
    pub(crate) minutes: u32,
    /// Days for which the certificates are valid.
    #[arg(long, default_value_t = 365, value_parser = clap::value_parser!(u32).range(1..=36500))]
    pub(crate) days: u32,
    /// The authority's folder.
    #[arg(long, value_name = "FOLDER", default_value = "/etc/accord/authority")]
    pub(crate) authority: PathBuf,
}

/// `accord setup node`.
#[derive(Args, Debug)]
pub(crate) struct NodeArgs {
    /// HOST:PORT/node/NAME, as the server has printed it; the code is asked for, or read from standard input. With /CODE after it, other users
    /// of this machine see the code. - reads all of it from standard input.
    #[arg(value_name = "INVITATION")]
    pub(crate) invitation: String,
    /// A further setting of the agent, such as ACCORD_LABELS=rack=r1.
    #[arg(long = "set", value_name = "NAME=VALUE", value_parser = setting)]
    pub(crate) settings: Vec<(String, String)>,
    /// Replace the certificate that is there, also by another cluster's.
    #[arg(long)]
    pub(crate) renew: bool,
    /// Change nothing, and print what would be done.
    #[arg(long)]
    pub(crate) dry_run: bool,
}

/// `accord setup user`.
#[derive(Args, Debug)]
pub(crate) struct UserArgs {
    /// HOST:PORT/user/NAME or HOST:PORT/admin/NAME, as the server has printed it; the code is asked for, or read from standard input. With /CODE
    /// after it, other users of this machine see the code. - reads all of it from standard input.
    #[arg(value_name = "INVITATION")]
    pub(crate) invitation: String,
    /// The certificate's folder [default: ~/.config/accord/tls, and for administrators other than root ~/.config/accord/admin].
    #[arg(long, short, value_name = "FOLDER")]
    pub(crate) out: Option<PathBuf>,
    /// Replace the certificate that is there, also by another cluster's.
    #[arg(long)]
    pub(crate) renew: bool,
    /// Change nothing, and print what would be done.
    #[arg(long)]
    pub(crate) dry_run: bool,
}

/// Reads a setting for a service's file.
fn setting(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("NAME=VALUE is needed")?;
    if !name.starts_with("ACCORD_") {
        return Err(format!("{name} is no setting of Accord's (accord info --settings lists them)"));
    }
    if [settings::TLS.name, settings::COORDINATOR.name].contains(&name) {
        return Err(format!("accord setup sets {name} itself"));
    }
    // systemd reads these in another way than they are written.
    if value.chars().any(|c| c.is_control() || "\\\"'`".contains(c)) {
        return Err(format!("the value of {name} has a quote, a backslash or a control character"));
    }
    match unknown_settings([name.into()]).into_iter().next() {
        Some(unknown) => Err(unknown),
        None => Ok((name.to_owned(), value.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_of_services_are_known_ones() {
        assert_eq!(setting("ACCORD_LABELS=rack=r1"), Ok(("ACCORD_LABELS".to_owned(), "rack=r1".to_owned())));
        for bad in [
            "ACCORD_LABELS",
            "PATH=/bin",
            "ACCORD_LABLES=rack=r1",
            "ACCORD_LOG=info\nX=1",
            "ACCORD_LABELS=a\\",
            "ACCORD_LABELS=\"a",
            "ACCORD_LABELS='a'",
            "ACCORD_TLS=/own",
            "ACCORD_COORDINATOR=h:7447",
        ] {
            assert!(setting(bad).is_err(), "{bad}");
        }
    }
}
