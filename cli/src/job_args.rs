//! The options of commands for jobs.

use crate::request_args::RequestArgs;
use accord_types::settings::parse_time;
use clap::{Args, ValueEnum};
use std::time::Duration;

/// `accord queue`.
///
/// Asks the coordinator of ACCORD_COORDINATOR. Users see their own jobs, and how many others have, unless the policy shows more;
/// administrators see all.
#[derive(Args, Debug)]
pub(crate) struct QueueArgs {
    #[command(flatten)]
    pub(crate) whose: WhoseArgs,
    #[command(flatten)]
    pub(crate) page: PageArgs,
    /// Print JSON, for programs.
    #[arg(long)]
    pub(crate) json: bool,
}

/// The users and accounts whose jobs are shown.
#[derive(Args, Debug)]
pub(crate) struct WhoseArgs {
    /// Show only jobs of this user.
    #[arg(long, value_name = "USER")]
    user: Option<String>,
    /// Show only jobs of this account.
    #[arg(long, value_name = "ACCOUNT")]
    account: Option<String>,
}

/// Rows per page, unless the command line says more.
const ROWS: u64 = 50;

/// The rows that are shown.
#[derive(Args, Debug, Clone, Copy)]
pub(crate) struct PageArgs {
    /// Number of the page to show, from 1 [default: all rows].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    page: Option<u64>,
    /// Rows per page; without --page the first one is shown [default: 50].
    #[arg(long, value_name = "ROWS", value_parser = clap::value_parser!(u64).range(1..))]
    rows: Option<u64>,
}

/// `accord cancel`, `accord hold`, `accord release`.
///
/// Asks the coordinator of ACCORD_COORDINATOR. Users change their own jobs, administrators those of all users.
#[derive(Args, Debug)]
pub(crate) struct JobsArgs {
    /// Numbers of jobs, as accord queue shows them.
    #[arg(required = true, value_name = "JOB", value_parser = job_number)]
    pub(crate) jobs: Vec<u64>,
}

/// `accord suspend`.
///
/// Asks the coordinator of ACCORD_COORDINATOR. Users suspend their own jobs, administrators those of all users. A job that can't be suspended goes on, and
/// the reason is printed.
#[derive(Args, Debug)]
pub(crate) struct SuspendArgs {
    /// Numbers of running jobs, as accord queue shows them.
    #[arg(required = true, value_name = "JOB", value_parser = job_number)]
    pub(crate) jobs: Vec<u64>,
    /// The reason, for the job's user and its history.
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: Option<String>,
}

/// `accord resume`.
///
/// Asks the coordinator of ACCORD_COORDINATOR. Users resume what they have suspended themselves, administrators each job. A job whose devices other jobs
/// hold is resumed once they are free.
#[derive(Args, Debug)]
pub(crate) struct ResumeArgs {
    /// Numbers of suspended jobs, as accord queue shows them.
    #[arg(required = true, value_name = "JOB", value_parser = job_number)]
    pub(crate) jobs: Vec<u64>,
}

/// `accord what-if`.
///
/// Asks the coordinator of ACCORD_COORDINATOR. The request is not submitted and takes no place: later requests may start first.
#[derive(Args, Debug)]
pub(crate) struct WhatIfArgs {
    #[command(flatten)]
    pub(crate) request: RequestArgs,
    /// Print JSON, for programs.
    #[arg(long)]
    pub(crate) json: bool,
}

/// `accord history`.
///
/// Asks the coordinator of ACCORD_COORDINATOR. Users see their own jobs, unless the policy shows more; administrators see all. The last jobs come
/// first.
#[derive(Args, Debug)]
pub(crate) struct HistoryArgs {
    #[command(flatten)]
    pub(crate) whose: WhoseArgs,
    #[command(flatten)]
    pub(crate) page: PageArgs,
    /// Print JSON, for programs.
    #[arg(long)]
    pub(crate) json: bool,
    /// Print all nodes and ended jobs, one JSON object per line, oldest job first, as input for sched-replay.
    #[arg(long, conflicts_with_all = ["json", "page", "rows", "user", "account"])]
    pub(crate) export: bool,
}

/// The rows of a usage table.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum By {
    User,
    Account,
    Day,
}

/// `accord usage`.
///
/// Asks the coordinator of ACCORD_COORDINATOR. A job is charged from its start until its devices are free: for each device the largest of its parts of time,
/// memory and the node's cores, times the billing weight of the device's class. Users see their own usage, unless the policy shows more; administrators see all.
#[derive(Args, Debug)]
pub(crate) struct UsageArgs {
    /// Sum by user, account or day (UTC).
    #[arg(long, value_enum, value_name = "user|account|day", hide_possible_values = true, default_value = "user")]
    pub(crate) by: By,
    #[command(flatten)]
    pub(crate) page: PageArgs,
    /// Print JSON, for programs.
    #[arg(long)]
    pub(crate) json: bool,
}

/// `accord change`.
///
/// Asks the coordinator of ACCORD_COORDINATOR as an administrator.
#[derive(Args, Debug)]
pub(crate) struct ChangeArgs {
    /// Numbers of jobs, as accord queue shows them.
    #[arg(required = true, value_name = "JOB", value_parser = job_number)]
    pub(crate) jobs: Vec<u64>,
    /// The time limit from a job's start, with s, m, h or d. It may be longer than the policy's.
    #[arg(long, value_name = "TIME", value_parser = limit, required_unless_present = "first")]
    pub(crate) limit: Option<Duration>,
    /// Put waiting jobs before all others.
    #[arg(long)]
    pub(crate) first: bool,
}

/// `accord pause`.
///
/// Asks the coordinator of ACCORD_COORDINATOR as an administrator.
#[derive(Args, Debug)]
pub(crate) struct PauseArgs {
    /// Let jobs start again.
    #[arg(long)]
    pub(crate) undo: bool,
}

/// Parses a job's number.
pub(crate) fn job_number(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| "a job's number is needed, as accord queue shows it".to_owned())
}

fn limit(text: &str) -> Result<Duration, String> {
    parse_time(text)
        .filter(|time| !time.is_zero())
        .ok_or_else(|| "a time such as 90s, 30m, 8h or 2d is needed".to_owned())
}

impl WhoseArgs {
    /// Whether a job of this user and account is shown.
    pub(crate) fn fit(&self, user: &str, account: &str) -> bool {
        let is = |wanted: &Option<String>, own| wanted.as_deref().is_none_or(|wanted| wanted == own);
        is(&self.user, user) && is(&self.account, account)
    }
}

impl PageArgs {
    /// Returns the number of the shown page; `None` for all rows.
    pub(crate) fn page(self) -> Option<u64> {
        self.page.or(self.rows.map(|_| 1))
    }

    /// Returns the number of rows per page.
    pub(crate) fn rows(self) -> u64 {
        self.rows.unwrap_or(ROWS)
    }

    /// Returns the range of the shown rows, of so many; empty if the page is beyond the last one.
    pub(crate) fn of(self, rows: usize) -> Option<std::ops::Range<usize>> {
        let Some(page) = self.page() else { return Some(0..rows) };
        let from = usize::try_from((page - 1).saturating_mul(self.rows())).unwrap_or(usize::MAX);
        let to = from.saturating_add(usize::try_from(self.rows()).unwrap_or(usize::MAX));
        (from < rows || page == 1).then(|| from.min(rows)..to.min(rows))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_divide_the_rows() {
        let page = |page| PageArgs { page, rows: None };
        assert_eq!(page(None).of(120), Some(0..120));
        assert_eq!(
            [Some(1), Some(2), Some(3)].map(|at| page(at).of(120)),
            [Some(0..50), Some(50..100), Some(100..120)]
        );
        assert_eq!([page(Some(4)).of(120), page(Some(1)).of(0), page(Some(u64::MAX)).of(9)], [None, Some(0..0), None]);
        assert_eq!(PageArgs { page: None, rows: Some(4) }.of(120), Some(0..4));
        assert_eq!(PageArgs { page: Some(2), rows: Some(4) }.of(120), Some(4..8));
    }
}
