//! `accord reservation`: devices that are set aside for a time.

use super::admin::{each, target_of};
use crate::client::Coordinator;
use crate::failure::{Failure, Result};
use crate::moment::{now, zone};
use crate::output::{Table, age, print, runs, show};
use crate::reservation_args::{CreateArgs, ReservationArgs, ReservationCommand};
use accord_proto::v1::{CreateReservationRequest, Reservation, ReservedTarget};
use serde_json::{Value, json};

/// Most reservations that `accord queue` and `accord info` print.
const SHOWN_MAX: usize = 8;

/// Runs `accord reservation`.
pub(crate) fn reservation(args: &ReservationArgs) -> Result<u8> {
    match &args.command {
        ReservationCommand::Create(args) => create(args),
        ReservationCommand::List { names, json } => list(names, *json),
        ReservationCommand::Delete { names } => delete(names),
    }
}

fn create(args: &CreateArgs) -> Result<u8> {
    let request = request(args)?;
    let made = Coordinator::required()?.reserve(request)?;
    show(&format!("{}\n", described(&made)));
    Ok(0)
}

/// Returns the request for a reservation.
fn request(args: &CreateArgs) -> Result<CreateReservationRequest> {
    let has_members = !args.accounts.is_empty() || !args.users.is_empty();
    if !has_members && !args.maintenance {
        let why =
            "a reservation is for accounts or users, or for maintenance: add --accounts, --users or --maintenance";
        return Err(Failure::usage(why));
    }
    if !args.maintenance && args.devices.is_none() && args.nodes.is_empty() {
        return Err(Failure::usage("a reservation has devices: name them by --devices or --nodes"));
    }
    let seen = now(zone(args.zone.as_deref())?);
    let start = args.start.at(&seen)?;
    let lasts = match (args.duration, args.until) {
        (Some(lasts), _) => i128::try_from(lasts.as_millis()).unwrap_or(i128::MAX),
        (None, Some(until)) => until.at(&start)?.duration_since(&start).as_millis(),
        (None, None) => 0,
    };
    let lasts_ms = u64::try_from(lasts).ok().filter(|lasts| *lasts > 0);
    let lasts_ms = lasts_ms.ok_or_else(|| Failure::usage("--until is not after --start: write a later time"))?;
    let targets = args.nodes.iter().map(|target| {
        let (node, ordinal) = target_of(target);
        ReservedTarget { node_name: node.to_owned(), ordinal }
    });
    Ok(CreateReservationRequest {
        version: accord_proto::VERSION,
        name: args.name.clone(),
        targets: targets.collect(),
        request: args.devices.clone().unwrap_or_default(),
        accounts: args.accounts.clone(),
        users: args.users.clone(),
        first: start.datetime().strftime("%Y-%m-%dT%H:%M:%S").to_string(),
        zone: start.time_zone().iana_name().unwrap_or("UTC").to_owned(),
        lasts_ms,
        weekly: args.weekly,
        end: args.end,
        reason: args.reason.clone().unwrap_or_default(),
    })
}

fn list(names: &[String], as_json: bool) -> Result<u8> {
    let mut all = Coordinator::required()?.reservations()?;
    for name in names {
        if !all.0.iter().any(|known| known.name == *name) {
            return Err(Failure::new(format!("there is no reservation {name}; accord reservation list shows all")));
        }
    }
    all.0.retain(|known| names.is_empty() || names.contains(&known.name));
    let (reservations, unix_ms) = all;
    if as_json {
        let rows: Vec<Value> = reservations.iter().map(row_json).collect();
        print(&format!("{:#}\n", json!({ "unix_ms": unix_ms, "reservations": rows })));
    } else {
        show(&table(&reservations, unix_ms));
    }
    Ok(0)
}

fn delete(names: &[String]) -> Result<u8> {
    let mut coordinator = Coordinator::required()?;
    each(names, |name| {
        coordinator.unreserve(name.clone())?;
        show(&format!("reservation {name} is deleted\n"));
        Ok(())
    })
}

/// Returns the jobs that a reservation is for, in words.
fn members(of: &Reservation) -> String {
    if of.hidden {
        return if of.yours { "you" } else { "others" }.to_owned();
    }
    let named = |kind: &str, names: &[String]| (!names.is_empty()).then(|| format!("{kind} {}", names.join(", ")));
    let named = named("account", &of.accounts).into_iter().chain(named("user", &of.users));
    let named: Vec<String> = named.collect();
    if named.is_empty() { "no job".to_owned() } else { named.join(" and ") }
}

/// Returns the devices of a reservation in short form.
fn devices(of: &Reservation) -> String {
    if of.devices.is_empty() {
        return "all devices".to_owned();
    }
    let one = |on: &accord_proto::v1::ReservedDevices| match on.ordinals.is_empty() {
        true => on.node_name.clone(),
        false => format!("{}/{}", on.node_name, runs(&on.ordinals)),
    };
    of.devices.iter().map(one).collect::<Vec<_>>().join(" ")
}

/// Describes a reservation in a sentence.
fn described(of: &Reservation) -> String {
    let weekly = if of.weekly { ", and each week at the same time" } else { "" };
    let end = if of.end { "; other jobs that are left at its start are ended" } else { "" };
    let (name, starts, ends) = (&of.name, &of.starts, &of.ends);
    format!("reservation {name}: {} for {}, from {starts} until {ends}{weekly}{end}", devices(of), members(of))
}

fn state(of: &Reservation, unix_ms: u64) -> String {
    match of.starts_unix_ms.saturating_sub(unix_ms) {
        0 => "now".to_owned(),
        ms => format!("in {}", age(ms)),
    }
}

fn table(reservations: &[Reservation], unix_ms: u64) -> String {
    if reservations.is_empty() {
        return "no reservations\n".to_owned();
    }
    let mut table =
        Table::new(&["RESERVATION", "BEGINS", "FROM", "UNTIL", "REPEATS", "DEVICES", "FOR", "MADE BY", "REASON"]);
    for of in reservations {
        table.row([
            of.name.clone(),
            state(of, unix_ms),
            of.starts.clone(),
            of.ends.clone(),
            if of.weekly { "weekly" } else { "-" }.to_owned(),
            devices(of),
            members(of),
            if of.hidden { "-".to_owned() } else { of.by.clone() },
            if of.reason.is_empty() { "-".to_owned() } else { of.reason.clone() },
        ]);
    }
    table.to_string()
}

/// Returns the next reservations for `accord queue` and `accord info`, one per line after an empty line; empty if there
/// are none.
pub(super) fn lines(reservations: &[Reservation], unix_ms: u64) -> String {
    let mut next: Vec<&Reservation> = reservations.iter().collect();
    next.sort_by_key(|of| (of.starts_unix_ms, &of.name));
    let displayed =
        next.iter().take(SHOWN_MAX).map(|of| format!("{} (begins {})\n", described(of), state(of, unix_ms)));
    let mut text: String = displayed.collect();
    if next.len() > SHOWN_MAX {
        text.push_str(&format!("and {} more: accord reservation list\n", next.len() - SHOWN_MAX));
    }
    if text.is_empty() { text } else { format!("\n{text}") }
}

/// Returns a reservation as JSON.
pub(super) fn row_json(of: &Reservation) -> Value {
    let devices = of.devices.iter().map(|on| json!({ "node": on.node_name, "ordinals": on.ordinals }));
    json!({
        "name": of.name,
        "all_devices": of.devices.is_empty(),
        "devices": devices.collect::<Vec<_>>(),
        "accounts": of.accounts,
        "users": of.users,
        "starts_unix_ms": of.starts_unix_ms,
        "ends_unix_ms": of.ends_unix_ms,
        "starts": of.starts,
        "ends": of.ends,
        "weekly": of.weekly,
        "ends_jobs": of.end,
        "yours": of.yours,
        "hidden": of.hidden,
        "by": of.by,
        "reason": of.reason,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use accord_proto::v1::ReservedDevices;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: ReservationArgs,
    }

    fn asked(line: &str) -> Result<CreateReservationRequest> {
        let line = Line::try_parse_from(["x", "create"].into_iter().chain(line.split_whitespace())).unwrap();
        match line.args.command {
            ReservationCommand::Create(args) => request(&args),
            _ => unreachable!(),
        }
    }

    fn course() -> Reservation {
        Reservation {
            name: "course".into(),
            by: "admin ops".into(),
            devices: vec![
                ReservedDevices { node_name: "gpu01".into(), ordinals: vec![0, 1, 2] },
                ReservedDevices { node_name: "gpu02".into(), ordinals: Vec::new() },
            ],
            accounts: vec!["teaching".into()],
            users: vec!["eva".into()],
            weekly: true,
            end: true,
            starts_unix_ms: 7_200_000,
            starts: "2026-12-01 08:00 +01:00 Europe/Berlin".into(),
            ends: "2026-12-01 12:00 +01:00 Europe/Berlin".into(),
            ..Reservation::default()
        }
    }

    #[test]
    fn a_reservation_is_asked_for_by_the_clock_of_its_zone() {
        let line = "course --nodes gpu01/3,gpu02 --accounts teaching,physics --users eva --start 2030-12-01T08:00 \
                    --until 12:00 --zone Europe/Berlin --weekly --end --reason course";
        let expected = CreateReservationRequest {
            version: accord_proto::VERSION,
            name: "course".into(),
            targets: vec![
                ReservedTarget { node_name: "gpu01".into(), ordinal: Some(3) },
                ReservedTarget { node_name: "gpu02".into(), ordinal: None },
            ],
            accounts: vec!["teaching".into(), "physics".into()],
            users: vec!["eva".into()],
            first: "2030-12-01T08:00:00".into(),
            zone: "Europe/Berlin".into(),
            lasts_ms: 4 * 3_600_000,
            weekly: true,
            end: true,
            reason: "course".into(),
            ..CreateReservationRequest::default()
        };
        assert_eq!(asked(line).unwrap(), expected);
        let all = asked("m --maintenance --start 2030-12-01T08:00 --duration 2h --zone UTC").unwrap();
        assert_eq!((all.targets.len(), all.lasts_ms, &*all.zone), (0, 7_200_000, "UTC"));
        let error = |line: &str| asked(line).unwrap_err().to_string();
        assert!(error("m --nodes a --start now --duration 2h --zone UTC").contains("--maintenance"));
        assert!(error("m --users eva --start now --duration 2h --zone UTC").contains("--devices or --nodes"));
        let before = error("m --maintenance --start 2030-12-02T08:00 --until 2030-12-01T08:00 --zone UTC");
        assert!(before.contains("--until is not after --start"), "{before}");
    }

    #[test]
    fn a_reservation_is_described_with_its_zone() {
        assert_eq!(
            described(&course()),
            "reservation course: gpu01/0-2 gpu02 for account teaching and user eva, from 2026-12-01 08:00 +01:00 Europe/Berlin \
             until 2026-12-01 12:00 +01:00 Europe/Berlin, and each week at the same time; other jobs that are left at its start are ended"
        );
        let all = Reservation { name: "m".into(), starts: "a".into(), ends: "b".into(), ..Reservation::default() };
        assert_eq!(described(&all), "reservation m: all devices for no job, from a until b");
        let hidden = Reservation { hidden: true, ..all };
        assert_eq!(described(&hidden), "reservation m: all devices for others, from a until b");
        assert_eq!(members(&Reservation { yours: true, ..hidden }), "you");
        let many = vec![course(); SHOWN_MAX + 2];
        let displayed = lines(&many, 0);
        assert!(
            displayed.contains("(begins in 2 h 0 min)") && displayed.ends_with("and 2 more: accord reservation list\n"),
            "{displayed}"
        );
        assert_eq!((lines(&[], 0), table(&[], 0)), (String::new(), "no reservations\n".to_owned()));
    }
}
