//! The options of `accord top`.

use crate::command::top::{Sort, View};
use clap::Args;

/// `accord top`.
///
/// Asks the coordinator of ACCORD_COORDINATOR, which sends changes once a second. Users see their own jobs, sessions and programs; those of others are
/// counted, unless the policy shows them. Administrators see all. A device is busy while queues on it are not empty; memory is what programs hold there.
#[derive(Args, Debug)]
pub(crate) struct TopArgs {
    /// The table.
    #[arg(long, value_enum, value_name = "TABLE", default_value_t)]
    pub(crate) by: View,
    /// The order of its rows.
    #[arg(long, value_enum, value_name = "ORDER", default_value_t)]
    pub(crate) sort: Sort,
    /// Rows of this user only.
    #[arg(long, value_name = "USER")]
    pub(crate) user: Option<String>,
    /// Print the table and end.
    #[arg(long)]
    pub(crate) once: bool,
    /// Print all tables as JSON, for programs, and end.
    #[arg(long)]
    pub(crate) json: bool,
}
