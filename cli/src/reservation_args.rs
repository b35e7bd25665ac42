//! The options of `accord reservation`.

use crate::moment::Start;
use accord_types::settings::parse_time;
use clap::{Args, Subcommand};
use std::time::Duration;

/// `accord reservation`.
#[derive(Args, Debug)]
pub(crate) struct ReservationArgs {
    #[command(subcommand)]
    pub(crate) command: ReservationCommand,
}

#[derive(Subcommand, Debug)]
pub(crate) enum ReservationCommand {
    /// Reserve devices for a time, for the jobs of some accounts and users, or for maintenance. Asks the coordinator of ACCORD_COORDINATOR as an administrator.
    Create(Box<CreateArgs>),
    /// Show the reservations that are not over, with their present or next times.
    List {
        /// Names of reservations [default: all].
        #[arg(value_name = "NAME")]
        names: Vec<String>,
        /// Print JSON, for programs.
        #[arg(long)]
        json: bool,
    },
    /// Delete reservations; jobs that run on their devices continue. Asks the coordinator of ACCORD_COORDINATOR as an administrator.
    Delete {
        /// Names of reservations, as accord reservation list shows them.
        #[arg(required = true, value_name = "NAME")]
        names: Vec<String>,
    },
}

/// `accord reservation create`.
#[derive(Args, Debug)]
pub(crate) struct CreateArgs {
    /// The reservation's name, by which jobs ask for it.
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
    /// Reserve the devices of a request, such as 4:nvidia/h200.
    #[arg(long, value_name = "REQUEST", conflicts_with = "nodes")]
    pub(crate) devices: Option<String>,
    /// Reserve these nodes, or with /DEVICE one device of a node.
    #[arg(long, value_name = "NODE[/DEVICE],...", value_delimiter = ',')]
    pub(crate) nodes: Vec<String>,
    /// Let no job use the devices meanwhile: all devices, unless --devices or --nodes names some.
    #[arg(long, conflicts_with_all = ["accounts", "users"])]
    pub(crate) maintenance: bool,
    /// Accounts whose jobs may use the devices meanwhile, with the accounts below them.
    #[arg(long, value_name = "ACCOUNT,...", value_delimiter = ',')]
    pub(crate) accounts: Vec<String>,
    /// Users whose jobs may use the devices meanwhile.
    #[arg(long, value_name = "USER,...", value_delimiter = ',')]
    pub(crate) users: Vec<String>,
    /// Start: now, a time from now such as 2h, a time of day such as 18:00, or a day and time such as 2026-12-01T08:00.
    #[arg(long, value_name = "TIME")]
    pub(crate) start: Start,
    /// Duration, such as 4h.
    #[arg(long, value_name = "TIME", value_parser = duration, required_unless_present = "until", conflicts_with = "until")]
    pub(crate) duration: Option<Duration>,
    /// End, in the forms of --start.
    #[arg(long, value_name = "TIME")]
    pub(crate) until: Option<Start>,
    /// Repeat the reservation each week at the same time of day.
    #[arg(long)]
    pub(crate) weekly: bool,
    /// The time zone of --start and --until, such as Europe/Berlin [default: this machine's].
    #[arg(long, value_name = "ZONE")]
    pub(crate) zone: Option<String>,
    /// End other jobs that still run at its start. Without it a reservation is refused if time limits of running jobs reach into it.
    #[arg(long)]
    pub(crate) end: bool,
    /// Reason for lists and the audit log.
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: Option<String>,
}

fn duration(text: &str) -> Result<Duration, String> {
    let time = parse_time(text).filter(|time| !time.is_zero());
    time.ok_or_else(|| "a time has a unit: s, m, h or d, as in 4h".to_owned())
}
