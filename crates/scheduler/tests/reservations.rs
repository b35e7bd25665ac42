//! Overlapping reservations, and reserved starts between the weeks of a reservation and after a restart.

use accord_scheduler::class::{ClassFilter, DeviceClass};
use accord_scheduler::node::{DeviceDescription, NodeDescription};
use accord_scheduler::request::Part;
use accord_scheduler::saved::{SavedJob, SavedScheduler};
use accord_scheduler::{
    Effect, EndCause, Input, JobId, Members, Millis, Policy, Request, Reservation, ReservationId, ReservedDevices,
    Scheduler,
};
use accord_types::{DeviceType, NodeId};
use std::collections::BTreeMap;

const HOUR: u64 = 3_600_000;
const WEEK: u64 = 7 * 24 * HOUR;

/// A node with two devices.
struct Site {
    scheduler: Scheduler,
    now: u64,
}

fn node() -> NodeDescription {
    let class = DeviceClass {
        kind: DeviceType::Nvidia,
        model: "h200".to_owned(),
        memory: 141 << 30,
        context: 0,
        compute: (9, 0),
    };
    NodeDescription {
        id: NodeId(1),
        name: "n1".to_owned(),
        incarnation: 1,
        devices: (0..2).map(|ordinal| DeviceDescription { ordinal, class: class.clone() }).collect(),
        cores: 0,
        host_memory: 0,
        labels: BTreeMap::new(),
    }
}

impl Site {
    fn new() -> Self {
        let mut site = Self { scheduler: Scheduler::new(Policy::default()), now: 0 };
        site.apply(Input::NodeJoined(node()));
        site
    }

    /// Replaces the scheduler with one that is restored from its records.
    fn restart(&mut self) {
        self.restart_with(|job| job);
    }

    /// Goes on with a scheduler that is made of what this one saves; its jobs are saved as `written` writes them.
    fn restart_with(&mut self, written: fn(SavedJob) -> SavedJob) {
        let (old, mut accounts) = (&self.scheduler, BTreeMap::new());
        for name in old.account_names() {
            accounts.extend(old.saved_account(name).map(|saved| (name.to_owned(), saved)));
        }
        let saved = SavedScheduler {
            classes: old.saved_classes(),
            accounts,
            jobs: old.job_ids().filter_map(|id| old.saved_job(id)).map(written).collect(),
            counters: old.saved_counters(),
            site: old.saved_site(),
        };
        self.scheduler = Scheduler::restore(Millis(self.now), Policy::default(), &[(node(), true)], saved).unwrap();
    }

    fn apply(&mut self, input: Input) -> Vec<Effect> {
        let mut effects = Vec::new();
        self.scheduler.apply(Millis(self.now), input, &mut effects);
        self.scheduler.check_invariants().unwrap();
        effects
    }

    /// Lets time pass until `until`. Returns the effects.
    fn pass(&mut self, until: u64) -> Vec<Effect> {
        let mut all = Vec::new();
        while let Some(next) = self.scheduler.next_deadline().filter(|next| next.0 <= until) {
            self.now = next.0.max(self.now);
            all.extend(self.apply(Input::Tick));
        }
        self.now = until;
        all.extend(self.apply(Input::Tick));
        all
    }

    /// Reserves both devices for a user, or for maintenance.
    fn reserve(&mut self, id: u64, created: u64, (starts, ends): (u64, u64), user: Option<&str>) -> Vec<Effect> {
        self.apply(Input::Reserve(Box::new(Reservation {
            id: ReservationId(id),
            name: user.unwrap_or("cleaning").to_owned(),
            devices: ReservedDevices::All,
            starts: Millis(starts),
            ends: Millis(ends),
            created,
            members: Members { accounts: Vec::new(), users: user.into_iter().map(str::to_owned).collect() },
            end_jobs: true,
        })))
    }

    fn ask(&mut self, user: &str, count: u32, limit_ms: Option<u64>) -> Vec<Effect> {
        let request = Request { limit_ms, ..Request::of(Part::whole(count, ClassFilter::ALL)) };
        self.apply(Input::Ask { user: user.to_owned(), account: "site".to_owned(), origin: None, request })
    }

    /// Requests devices of a reservation.
    fn ask_within(&mut self, user: &str, count: u32, limit_ms: u64, reservation: &str) -> Vec<Effect> {
        let part = Part::whole(count, ClassFilter::ALL);
        let reservation = Some(reservation.to_owned());
        let request = Request { limit_ms: Some(limit_ms), reservation, ..Request::of(part) };
        self.apply(Input::Ask { user: user.to_owned(), account: "site".to_owned(), origin: None, request })
    }
}

/// Returns a job as a release saved it that did not save reserved starts.
fn without_reserved_start(job: SavedJob) -> SavedJob {
    let mut saved = serde_json::to_value(job).unwrap();
    saved.as_object_mut().unwrap().remove("reserved_start").unwrap();
    serde_json::from_value(saved).unwrap()
}

fn started(effects: &[Effect]) -> Vec<JobId> {
    let started = effects.iter().filter_map(|effect| match effect {
        Effect::Started { job, .. } => Some(*job),
        _ => None,
    });
    started.collect()
}

/// Returns the jobs that are ended for a reservation.
fn ended_for(effects: &[Effect]) -> Vec<JobId> {
    let ended = effects.iter().filter_map(|effect| match effect {
        Effect::Ended { job, cause: EndCause::Reserved { .. } } => Some(*job),
        _ => None,
    });
    ended.collect()
}

/// Returns the last reserved start.
fn reserved(effects: &[Effect]) -> u64 {
    let start = effects.iter().rev().find_map(|effect| match effect {
        Effect::Reserved { starts, .. } => Some(starts.0),
        _ => None,
    });
    start.unwrap_or_else(|| panic!("{effects:?}"))
}

#[test]
fn earlier_created_reservation_has_precedence() {
    let mut site = Site::new();
    // The week of the reservation that was created earlier has the greater number.
    site.reserve(9, 1, (HOUR, 3 * HOUR), Some("eva"));
    site.reserve(2, 2, (HOUR, 5 * HOUR), Some("tom"));
    site.pass(HOUR);
    assert_eq!(started(&site.ask("tom", 1, Some(HOUR))), []);
    let eva = started(&site.ask("eva", 1, Some(2 * HOUR)));
    assert_eq!(eva, [JobId(2)]);
    // The job would reach into the time of the other reservation.
    assert_eq!(started(&site.ask("eva", 1, Some(2 * HOUR + 1))), []);
    assert_eq!(started(&site.pass(3 * HOUR - 1)), []);
    assert_eq!(started(&site.pass(3 * HOUR)), [JobId(1)]);
}

#[test]
fn a_reservation_ends_no_job_for_which_one_is_that_was_created_earlier() {
    for (of_eva, of_tom, ended) in [(1, 2, vec![]), (2, 1, vec![JobId(1)])] {
        let mut site = Site::new();
        site.reserve(1, of_eva, (0, 4 * HOUR), Some("eva"));
        assert_eq!(started(&site.ask("eva", 1, Some(4 * HOUR))), [JobId(1)]);
        site.reserve(2, of_tom, (2 * HOUR, 3 * HOUR), Some("tom"));
        assert_eq!(ended_for(&site.pass(3 * HOUR)), ended);
    }
}

#[test]
fn a_reservation_ends_jobs_that_one_created_earlier_kept_once_that_is_over() {
    let site = || {
        let mut site = Site::new();
        assert_eq!(started(&site.ask("eva", 1, Some(72 * HOUR))), [JobId(1)]);
        site.reserve(1, 1, (8 * HOUR, 12 * HOUR), Some("eva"));
        site.reserve(2, 2, (10 * HOUR, 20 * HOUR), Some("tom"));
        assert_eq!(ended_for(&site.pass(11 * HOUR)), []);
        site
    };
    let mut over = site();
    assert_eq!(ended_for(&over.pass(12 * HOUR - 1)), []);
    assert_eq!(ended_for(&over.pass(12 * HOUR)), [JobId(1)]);
    let mut cancelled = site();
    assert_eq!(ended_for(&cancelled.apply(Input::Unreserve(ReservationId(1)))), [JobId(1)]);
    // Moved away from the time at which the other reservation has the device.
    let mut moved = site();
    assert_eq!(ended_for(&moved.reserve(1, 1, (30 * HOUR, 40 * HOUR), Some("eva"))), [JobId(1)]);
    // Recomputed with the same time.
    let mut kept = site();
    assert_eq!(ended_for(&kept.reserve(1, 1, (8 * HOUR, 12 * HOUR), Some("eva"))), []);
}

/// Returns a site with maintenance of two hours at the same time of four weeks, first in a day. Jobs hold all devices
/// for an hour.
fn cleaned_weekly() -> Site {
    let mut site = Site::new();
    for week in 0..4 {
        let starts = 24 * HOUR + week * WEEK;
        site.reserve(week, 1, (starts, starts + 2 * HOUR), None);
    }
    assert_eq!(started(&site.ask("tom", 2, Some(HOUR))).len(), 1);
    site
}

#[test]
fn a_reserved_start_is_before_a_weekly_reservation_if_the_job_fits() {
    assert_eq!(reserved(&cleaned_weekly().ask("eva", 2, Some(23 * HOUR))), HOUR);
}

#[test]
fn a_reserved_start_is_between_two_weeks_of_a_reservation_if_the_job_fits() {
    assert_eq!(reserved(&cleaned_weekly().ask("eva", 2, Some(24 * HOUR))), 26 * HOUR);
    // As long as the time between two weeks.
    assert_eq!(reserved(&cleaned_weekly().ask("eva", 2, Some(WEEK - 2 * HOUR))), 26 * HOUR);
    assert_eq!(reserved(&cleaned_weekly().ask("eva", 2, Some(WEEK))), 26 * HOUR + 3 * WEEK);
}

#[test]
fn a_job_without_a_limit_has_a_reserved_start_before_a_weekly_reservation() {
    assert_eq!(reserved(&cleaned_weekly().ask("eva", 2, None)), HOUR);
}

#[test]
fn reserved_starts_are_one_after_the_other_between_weeks() {
    let mut site = cleaned_weekly();
    assert_eq!(reserved(&site.ask("eva", 2, Some(10 * HOUR))), HOUR);
    assert_eq!(reserved(&site.ask("uli", 2, Some(20 * HOUR))), 26 * HOUR);
    // The job does not fit before the first week, and no reserved start precedes another one.
    assert_eq!(reserved(&site.ask("kim", 2, Some(HOUR))), 46 * HOUR);
}

#[test]
fn a_restart_lets_no_later_job_delay_a_reserved_start() {
    let written: [fn(SavedJob) -> SavedJob; 2] = [|job| job, without_reserved_start];
    for (is_paused, written) in [false, true].into_iter().flat_map(|paused| written.map(|written| (paused, written))) {
        let mut site = Site::new();
        let pause = |paused| Input::Pause { paused, by: "root".to_owned() };
        assert_eq!(started(&site.ask("tom", 1, Some(HOUR))), [JobId(1)]);
        assert_eq!(reserved(&site.ask("eva", 2, Some(HOUR))), HOUR);
        assert_eq!(started(&site.ask("uli", 1, Some(2 * HOUR))), []);
        site.apply(pause(is_paused));
        site.restart_with(written);
        let mut effects = site.apply(Input::Tick);
        effects.extend(site.apply(pause(false)));
        assert_eq!(started(&effects), [], "paused: {is_paused}");
        assert_eq!(site.scheduler.explain(JobId(2)).unwrap().starts, Some(Millis(HOUR)));
        // A job that ends before may start, as without a restart.
        assert_eq!(started(&site.ask("kim", 1, Some(HOUR))), [JobId(4)]);
    }
}

#[test]
fn a_restart_keeps_reserved_starts_although_they_would_be_planned_earlier_by_now() {
    let decided = |written: Option<fn(SavedJob) -> SavedJob>| {
        let mut site = Site::new();
        site.ask("tom", 1, Some(HOUR));
        site.ask("tom", 1, Some(2 * HOUR));
        assert_eq!(reserved(&site.ask("eva", 2, Some(HOUR))), 2 * HOUR);
        site.pass(HOUR / 6);
        site.apply(Input::Ended { job: JobId(2) });
        site.apply(Input::Released { job: JobId(2), node: NodeId(1) });
        if let Some(written) = written {
            site.restart_with(written);
            site.apply(Input::Tick);
        }
        let starts = site.scheduler.explain(JobId(3)).unwrap().starts;
        // It ends before that start, and not before the one that would be planned now.
        (starts, started(&site.ask("kim", 1, Some(HOUR + HOUR / 2))))
    };
    let kept = (Some(Millis(2 * HOUR)), vec![JobId(4)]);
    assert_eq!([decided(None), decided(Some(|job| job))], [kept.clone(), kept]);
    // As an earlier release has saved it.
    assert_eq!(decided(Some(without_reserved_start)), (Some(Millis(HOUR)), vec![]));
}

#[test]
fn a_restart_lets_no_later_job_of_a_reservation_delay_a_start_after_it() {
    let mut site = Site::new();
    site.reserve(1, 1, (0, HOUR), Some("eva"));
    assert_eq!(reserved(&site.ask("tom", 2, Some(HOUR))), HOUR);
    assert_eq!(started(&site.ask("eva", 1, Some(2 * HOUR))), []);
    site.restart();
    assert_eq!(started(&site.apply(Input::Tick)), []);
    assert_eq!(site.scheduler.explain(JobId(1)).unwrap().starts, Some(Millis(HOUR)));
    assert_eq!(started(&site.ask("eva", 1, Some(HOUR))), [JobId(3)]);
}

#[test]
fn a_job_that_may_start_at_a_restart_starts_in_its_order() {
    let mut site = Site::new();
    site.reserve(1, 1, (0, HOUR), None);
    assert_eq!(started(&site.ask("tom", 2, Some(HOUR))), []);
    assert_eq!(started(&site.ask("eva", 1, Some(HOUR))), []);
    // Maintenance ends while no scheduler runs.
    site.now = HOUR;
    site.restart();
    assert_eq!(started(&site.apply(Input::Tick)), [JobId(1)]);
    assert_eq!(site.scheduler.explain(JobId(2)).unwrap().starts, Some(Millis(2 * HOUR)));
}

#[test]
fn a_job_that_names_a_reservation_starts_before_jobs_that_wait_for_the_reservations_end() {
    // The job is requested before the other one, and begins with the reservation; or it is requested in the reservation.
    for is_first in [true, false] {
        let mut site = Site::new();
        site.reserve(1, 1, (HOUR, 2 * HOUR), Some("eva"));
        let mut named = if is_first { started(&site.ask_within("eva", 2, 3 * HOUR, "eva")) } else { Vec::new() };
        assert_eq!(reserved(&site.ask("tom", 2, Some(2 * HOUR))), 2 * HOUR);
        named.extend(started(&site.pass(HOUR)));
        if !is_first {
            named.extend(started(&site.ask_within("eva", 2, 3 * HOUR, "eva")));
        }
        assert_eq!(named.len(), 1, "requested first: {is_first}");
        // It lasts beyond the end of the reservation; the other job waits for its end, and is told so.
        let waiting = if is_first { JobId(2) } else { JobId(1) };
        assert_eq!(site.scheduler.explain(waiting).unwrap().starts, Some(Millis(4 * HOUR)));
    }
}

#[test]
fn a_job_that_names_no_reservation_leaves_reserved_starts_after_it_alone() {
    let mut site = Site::new();
    site.reserve(1, 1, (0, HOUR), Some("eva"));
    assert_eq!(reserved(&site.ask("tom", 2, Some(HOUR))), HOUR);
    assert_eq!(started(&site.ask("eva", 1, Some(2 * HOUR))), []);
    assert_eq!(started(&site.ask_within("eva", 1, HOUR + HOUR / 2, "eva")), [JobId(3)]);
}

#[test]
fn a_job_whose_reservation_is_over_ends() {
    let mut site = Site::new();
    site.reserve(1, 1, (HOUR, 2 * HOUR), Some("eva"));
    site.reserve(2, 1, (5 * HOUR, 6 * HOUR), Some("eva"));
    site.ask_within("eva", 2, HOUR, "eva");
    site.apply(Input::Hold { job: JobId(1), held: true });
    let ended = |effects: &[Effect]| {
        let ended = effects.iter().filter_map(|effect| match effect {
            Effect::Ended { job, cause: EndCause::ReservationOver { name } } => Some((*job, name.clone())),
            _ => None,
        });
        ended.collect::<Vec<_>>()
    };
    // The same reservation begins again.
    assert_eq!(ended(&site.pass(2 * HOUR)), []);
    // A new description of a reservation does not end its jobs.
    assert_eq!(ended(&site.reserve(2, 1, (5 * HOUR, 7 * HOUR), Some("eva"))), []);
    assert_eq!(ended(&site.pass(7 * HOUR - 1)), []);
    site.restart();
    assert_eq!(ended(&site.pass(7 * HOUR)), [(JobId(1), "eva".to_owned())]);
    assert_eq!(site.scheduler.explain(JobId(1)), None);
}
