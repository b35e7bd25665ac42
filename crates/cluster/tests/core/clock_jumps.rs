//! A wall clock that jumps by an hour under running jobs, reservations and a month's end.

use crate::reservations::{DAY, HOUR, MINUTE, Site, granted, node, reservation, why};
use accord_cluster::{Effect, Input, Millis};
use accord_scheduler::ledger::UsageBy;
use accord_scheduler::policy::SitePolicy;
use accord_types::{DeviceId, NodeId};

impl Site {
    fn jump_ahead(&mut self) -> Vec<Effect> {
        self.wall_clock += HOUR;
        self.give(Input::Tick)
    }

    fn jump_back(&mut self) -> Vec<Effect> {
        self.wall_clock -= HOUR;
        self.give(Input::Tick)
    }

    /// Returns how many jobs run.
    fn running(&self) -> usize {
        self.cluster.scheduler().running()
    }

    /// Returns the device milliseconds of a user, of all days.
    fn used(&mut self, user: &str) -> u64 {
        let lines = self.cluster.usage(Millis(self.now)).by(UsageBy::Day, Some(user));
        lines.iter().map(|line| u64::try_from(line.row.usage.milli_ms / 1_000).unwrap()).sum()
    }
}

#[test]
fn jobs_last_as_long_as_they_may_and_each_second_is_charged_once() {
    let mut site = Site::beginning_at(DAY - 20 * MINUTE);
    let begun = site.now;
    let (long, effects) = site.ask("eva", "1:cpu limit=6h on=h1");
    assert!(granted(&effects, long).is_some(), "{effects:?}");
    let (short, effects) = site.ask("tom", "1:cpu limit=1h on=h1");
    assert!(granted(&effects, short).is_some(), "{effects:?}");
    for round in 0..5 {
        for jump in [Site::jump_ahead, Site::jump_back, Site::jump_back, Site::jump_ahead] {
            jump(&mut site);
            site.pass(2 * MINUTE + 45_000);
            assert_eq!(site.running(), 2, "round {round}, {} s after the start", (site.now - begun) / 1_000);
            assert_eq!(site.used("eva"), site.now - begun);
            assert_eq!(site.used("tom"), site.now - begun);
        }
    }
    site.pass(HOUR - (site.now - begun) - 5_000);
    assert_eq!(site.running(), 2, "the limit is not over");
    site.pass(10_000);
    assert_eq!(site.running(), 1, "the limit is over");
    assert_eq!(site.used("eva"), site.now - begun);
    // Days of both months have their parts.
    assert_eq!(site.cluster.usage(Millis(site.now)).by(UsageBy::Day, Some("eva")).len(), 2);
}

#[test]
fn a_reservation_begins_and_ends_by_the_clock_as_it_is() {
    let mut site = Site::beginning_at(DAY);
    site.reserve(reservation("fan", node("h2"), "2026-12-01T03:00", HOUR));
    let is_reserved = |site: &Site| site.cluster.scheduler().is_reserved(DeviceId { node: NodeId(1), ordinal: 0 });
    // By the clock it is 1:59, 2:59, 3:01, 2:01, and 3:01 again.
    site.pass(2 * HOUR - MINUTE - site.now);
    site.jump_ahead();
    assert!(!is_reserved(&site));
    site.pass(2 * MINUTE);
    assert!(is_reserved(&site));
    site.jump_back();
    assert!(!is_reserved(&site));
    let (meanwhile, effects) = site.ask("eva", "1:cpu limit=30m on=h2");
    assert!(granted(&effects, meanwhile).is_some(), "{effects:?}");
    let (long, effects) = site.ask("eva", "1:cpu limit=2h on=h2");
    assert!(granted(&effects, long).is_none(), "{effects:?}");
    site.pass(HOUR);
    assert!(is_reserved(&site));
    site.pass(HOUR);
    assert!(!is_reserved(&site));
}

#[test]
fn a_month_begins_once_at_its_first_midnight() {
    let mut site = Site::beginning_at(DAY - 40 * MINUTE);
    let text = "[account.physics]\nusers = [\"*\"]\ndevice-hours = 1\n";
    let policy = Box::new(SitePolicy::read(text, None).unwrap());
    site.give(Input::ApplyPolicy { policy, by: "admin root".into() });
    let (client, effects) = site.ask("eva", "2:cpu limit=1h");
    assert!(granted(&effects, client).is_some(), "{effects:?}");
    site.pass(20 * MINUTE);
    // December begins, with a whole budget. Neither the hour back nor the next midnight begin a month.
    site.jump_ahead();
    site.jump_back();
    site.pass(20 * MINUTE);
    let (second, effects) = site.ask("tom", "1:cpu limit=1m");
    assert!(granted(&effects, second).is_some(), "two thirds of the budget are spent: {effects:?}");
    site.give(Input::ClientGone { client: accord_cluster::ClientId(second) });
    site.pass(15 * MINUTE);
    let (third, effects) = site.ask("tom", "1:cpu limit=1m");
    let why = why(&effects, third);
    assert!(why.contains("has spent its device-hours of this month"), "{why}");
    assert_eq!(site.running(), 1, "a spent budget ends no job");
}
