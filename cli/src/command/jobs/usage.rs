//! `accord usage`: what users and accounts used.

use super::paged;
use super::words::{ago, hours};
use crate::client::Coordinator;
use crate::failure::Result;
use crate::job_args::{By, UsageArgs};
use crate::output::{Table, print, show};
use accord_proto::v1::{UsageBy, UsageReply, UsageRow};
use serde_json::{Value, json};

/// Runs `accord usage`.
pub(crate) fn usage(args: &UsageArgs) -> Result<u8> {
    let (by, heading) = match args.by {
        By::User => (UsageBy::User, "USER"),
        By::Account => (UsageBy::Account, "ACCOUNT"),
        By::Day => (UsageBy::Day, "DAY (UTC)"),
    };
    let usage = Coordinator::required()?.usage(by)?;
    let rows = paged(args.page, &usage.rows)?;
    if args.json {
        print(&format!("{:#}\n", as_json(&usage, rows)));
    } else {
        show(&table(&usage, rows, heading));
    }
    Ok(0)
}

fn table(usage: &UsageReply, rows: &[UsageRow], heading: &str) -> String {
    let mut table = Table::new(&[heading, ">JOBS", ">DEVICE-HOURS", ">BILLED"]);
    for row in rows {
        table.row([row.name.clone(), row.jobs.to_string(), hours(row.device_ms), hours(row.billed_ms)]);
    }
    if usage.rows.len() > 1 {
        let sum = |of: fn(&UsageRow) -> u64| usage.rows.iter().map(of).fold(0, u64::saturating_add);
        table.row([
            "all".to_owned(),
            sum(|row| row.jobs).to_string(),
            hours(sum(|row| row.device_ms)),
            hours(sum(|row| row.billed_ms)),
        ]);
    }
    let since = ago(usage.since_unix_ms, usage.unix_ms);
    let table = if table.is_empty() { "nothing was used\n".to_owned() } else { table.to_string() };
    format!("{table}\ncounted since {since}; billed are device-hours times the billing weight of the devices' class\n")
}

fn as_json(usage: &UsageReply, rows: &[UsageRow]) -> Value {
    let row = |row: &UsageRow| json!({ "name": row.name, "jobs": row.jobs, "device_ms": row.device_ms, "billed_ms": row.billed_ms });
    json!({
        "since_unix_ms": usage.since_unix_ms,
        "unix_ms": usage.unix_ms,
        "rows": rows.iter().map(row).collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_rows_have_a_sum() {
        let row = |name: &str, ms| UsageRow { name: name.into(), device_ms: ms, billed_ms: 4 * ms, jobs: 2 };
        let one = UsageReply { rows: vec![row("eva", 3_600_000)], unix_ms: 60_000, ..UsageReply::default() };
        let note = "\ncounted since 60 s ago; billed are device-hours times the billing weight of the devices' class\n";
        assert_eq!(
            table(&one, &one.rows, "USER"),
            format!("USER  JOBS  DEVICE-HOURS  BILLED\neva      2         1.000   4.000\n{note}")
        );
        let two = UsageReply { rows: vec![row("ada", 1_800_000), row("eva", 3_600_000)], ..one };
        assert!(table(&two, &two.rows[..1], "USER").contains("\nall      4         1.500   6.000\n"));
        assert!(table(&UsageReply::default(), &[], "USER").starts_with("nothing was used\n"));
    }
}
