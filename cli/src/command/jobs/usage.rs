//! `accord usage`: the usage of users and accounts.

use super::paged;
use super::words::{ago, busy_part, hours};
use crate::client::Coordinator;
use crate::failure::Result;
use crate::job_args::{By, UsageArgs};
use crate::output::{Table, bytes, print, show};
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
    let mut table = Table::new(&[heading, ">JOBS", ">DEVICE-HOURS", ">BUSY", ">BILLED", ">IN", ">OUT"]);
    for row in rows {
        table.row(cells(row));
    }
    if usage.rows.len() > 1 {
        let sum = |of: fn(&UsageRow) -> u64| usage.rows.iter().map(of).fold(0, u64::saturating_add);
        table.row(cells(&UsageRow {
            name: "in all".to_owned(),
            device_ms: sum(|row| row.device_ms),
            billed_ms: sum(|row| row.billed_ms),
            jobs: sum(|row| row.jobs),
            busy_ms: sum(|row| row.busy_ms),
            unknown_ms: sum(|row| row.unknown_ms),
            bytes_in: sum(|row| row.bytes_in),
            bytes_out: sum(|row| row.bytes_out),
        }));
    }
    let since = ago(usage.since_unix_ms, usage.unix_ms);
    let table = if table.is_empty() { "nothing was used\n".to_owned() } else { table.to_string() };
    format!("{table}\ncounted since {since}; billed are device-hours times the billing weight of the devices' class\n")
}

fn cells(row: &UsageRow) -> [String; 7] {
    [
        row.name.clone(),
        row.jobs.to_string(),
        hours(row.device_ms),
        busy_part(row.device_ms, row.unknown_ms, row.busy_ms),
        hours(row.billed_ms),
        bytes(row.bytes_in),
        bytes(row.bytes_out),
    ]
}

fn as_json(usage: &UsageReply, rows: &[UsageRow]) -> Value {
    let row = |row: &UsageRow| {
        json!({
            "name": row.name,
            "jobs": row.jobs,
            "device_ms": row.device_ms,
            "billed_ms": row.billed_ms,
            "busy_ms": row.busy_ms,
            "unknown_ms": row.unknown_ms,
            "bytes_in": row.bytes_in,
            "bytes_out": row.bytes_out,
        })
    };
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
        let row = |name: &str, ms| UsageRow {
            name: name.into(),
            device_ms: ms,
            billed_ms: 4 * ms,
            jobs: 2,
            busy_ms: ms / 4,
            bytes_in: 3 << 20,
            ..UsageRow::default()
        };
        let one = UsageReply { rows: vec![row("eva", 3_600_000)], unix_ms: 60_000, ..UsageReply::default() };
        let note = "\ncounted since 60 s ago; billed are device-hours times the billing weight of the devices' class\n";
        assert_eq!(
            table(&one, &one.rows, "USER"),
            format!(
                "USER  JOBS  DEVICE-HOURS  BUSY  BILLED       IN  OUT\neva      2         1.000  25 %   4.000  3.0 MiB  0 B\n{note}"
            )
        );
        let two = UsageReply { rows: vec![row("ada", 1_800_000), row("eva", 3_600_000)], ..one };
        assert!(
            table(&two, &two.rows[..1], "USER").contains("\nin all     4         1.500  25 %   6.000  6.0 MiB  0 B\n")
        );
        assert!(table(&UsageReply::default(), &[], "USER").starts_with("nothing was used\n"));
    }
}
