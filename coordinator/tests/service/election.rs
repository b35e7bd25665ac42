//! Candidates with a simulated etcd: at most one leads at any time, and soon one does, whatever is lost, paused or cut off.

use accord_cluster::Millis;
use accord_coordinator::leadership::{Action, Answer, Candidate, LEASE_SECONDS, LeadershipStatus, Owner};
use accord_test_tier::splitmix64;
use std::collections::BTreeMap;

const CANDIDATES: usize = 3;
/// After a quiet time of this length one of them has to lead.
const ELECTED_WITHIN_MS: u64 = 5_000;
/// etcd notices the end of a lease this much later at most.
const EXPIRES_LATE_MS: u64 = 500;
/// The limit of a request.
const REQUEST_MS: u64 = 700;

struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        splitmix64(&mut self.0) % end
    }

    fn chance(&mut self, of_1000: u64) -> bool {
        self.below(1_000) < of_1000
    }
}

#[derive(Default)]
struct Etcd {
    revision: i64,
    /// When each lease ends.
    leases: BTreeMap<i64, u64>,
    owner: Option<Owner>,
}

impl Etcd {
    fn expire(&mut self, now: u64) {
        self.leases.retain(|_, until| *until > now);
        self.owner = self.owner.take().filter(|owner| self.leases.contains_key(&owner.lease));
    }

    fn does(&mut self, action: Action, user_name: usize, now: u64, random: &mut Random) -> Answer {
        self.revision += 1;
        let mut until = || now + LEASE_SECONDS as u64 * 1_000 + random.below(EXPIRES_LATE_MS);
        match action {
            Action::Look => Answer::Owner(self.owner.clone()),
            Action::Grant => {
                self.leases.insert(self.revision, until());
                Answer::Granted { lease: self.revision, seconds: LEASE_SECONDS }
            }
            Action::Stand { lease, .. } if self.owner.is_none() && self.leases.contains_key(&lease) => {
                self.owner = Some(Owner { address: format!("c{user_name}"), lease, revision: self.revision });
                Answer::Elected(self.revision)
            }
            // etcd refuses a lease that has ended.
            Action::Stand { lease, .. } if !self.leases.contains_key(&lease) => Answer::Failed,
            Action::Stand { .. } => Answer::Owner(self.owner.clone()),
            Action::Renew { lease, .. } => match self.leases.get_mut(&lease) {
                Some(ends) => {
                    *ends = until();
                    Answer::Renewed(LEASE_SECONDS)
                }
                None => Answer::Renewed(0),
            },
            Action::Wait(_) | Action::End => Answer::Failed,
        }
    }
}

/// A request on its way, or its answer.
struct Request {
    action: Action,
    asked: u64,
    done_at: u64,
    answer: Option<Answer>,
    answered_at: u64,
}

#[derive(Default)]
struct Process {
    candidate: Candidate,
    request: Option<Request>,
    paused_until: u64,
    cut_off_until: u64,
}

struct World {
    random: Random,
    etcd: Etcd,
    etcd_away_until: u64,
    processes: Vec<Process>,
    now: u64,
    quiet_since: u64,
}

impl World {
    fn new(seed: u64) -> Self {
        let processes = (0..CANDIDATES).map(|_| Process::default()).collect();
        let random = Random(seed);
        Self { random, etcd: Etcd::default(), etcd_away_until: 0, processes, now: 0, quiet_since: 0 }
    }

    /// One millisecond. Returns the candidate that leads.
    fn step(&mut self, disturbs: bool) -> Option<usize> {
        self.now += 1;
        let now = self.now;
        self.etcd.expire(now);
        if disturbs && self.random.chance(1) {
            self.disturb();
        }
        for user_name in 0..CANDIDATES {
            self.run(user_name, disturbs);
        }
        let is_awake = |process: &&Process| process.paused_until <= now;
        let leads = |process: &Process| {
            matches!(process.candidate.leadership_status(Millis(now)), LeadershipStatus::Leads { .. })
        };
        let leaders: Vec<usize> = (0..CANDIDATES).filter(|user_name| leads(&self.processes[*user_name])).collect();
        // One that is paused can't look at its clock, and does before it does anything.
        let awake: Vec<usize> =
            leaders.iter().copied().filter(|user_name| is_awake(&&self.processes[*user_name])).collect();
        assert!(awake.len() <= 1, "{awake:?} lead at {now}");
        if let Some(&leader) = awake.first() {
            let LeadershipStatus::Leads { revision } = self.processes[leader].candidate.leadership_status(Millis(now))
            else {
                return None;
            };
            let owner = self.etcd.owner.as_ref().map(|owner| owner.revision);
            assert_eq!(owner, Some(revision), "candidate {leader} leads at {now} without the key");
        }
        awake.first().copied()
    }

    /// Pauses or cuts off a candidate, starts one anew, or stops etcd.
    fn disturb(&mut self) {
        let (now, time) = (self.now, 100 + self.random.below(8_000));
        let user_name = self.random.below(CANDIDATES as u64) as usize;
        let ends = match self.random.below(4) {
            0 => {
                self.processes[user_name].paused_until = now + time;
                now + time
            }
            1 => {
                self.processes[user_name].cut_off_until = now + time;
                now + time
            }
            2 => {
                self.processes[user_name] = Process::default();
                now
            }
            _ => {
                self.etcd_away_until = now + time / 4;
                self.etcd_away_until
            }
        };
        self.quiet_since = self.quiet_since.max(ends);
    }

    fn run(&mut self, user_name: usize, loses: bool) {
        let Self { random, etcd, processes, now, .. } = self;
        let (now, process) = (*now, &mut processes[user_name]);
        let reaches = process.cut_off_until <= now && self.etcd_away_until <= now;
        if let Some(request) = &mut process.request
            && request.answer.is_none()
            && request.done_at == now
        {
            // The request is in etcd's hands, whether its sender is paused or not.
            if reaches && !(loses && random.chance(20)) {
                let answer = etcd.does(request.action, user_name, now, random);
                request.answer = (!(loses && random.chance(20))).then_some(answer);
            }
        }
        if process.paused_until > now {
            return;
        }
        if let Some(request) = process.request.take_if(|request| {
            now >= request.asked + REQUEST_MS || request.answer.is_some() && now >= request.answered_at && reaches
        }) {
            let answer = request.answer.unwrap_or(Answer::Failed);
            process.candidate.answered(Millis(request.asked), Millis(now), answer);
        }
        if process.request.is_some() {
            return;
        }
        match process.candidate.next(Millis(now)) {
            Action::Wait(_) => {}
            // The process starts anew.
            Action::End => *process = Process { cut_off_until: process.cut_off_until, ..Process::default() },
            action => {
                let done_at = now + 1 + random.below(20);
                let answered_at = done_at + 1 + random.below(if loses { 400 } else { 20 });
                process.request = Some(Request { action, asked: now, done_at, answer: None, answered_at });
            }
        }
    }
}

#[test]
fn at_most_one_candidate_leads_and_one_is_elected_soon() {
    const TIME_MS: u64 = 60_000;
    let (mut elections, seeds) = (0, accord_test_tier::pick(20, 2_000));
    let first = accord_test_tier::first_seed(seeds);
    for seed in first..first + seeds {
        let (mut world, mut last) = (World::new(seed), None);
        while world.now < TIME_MS {
            // Quiet times and others take turns.
            let disturbs = world.now / 15_000 % 2 == 0;
            if disturbs {
                world.quiet_since = world.quiet_since.max(world.now + REQUEST_MS);
            }
            let leader = world.step(disturbs);
            elections += usize::from(leader.is_some() && leader != last);
            last = leader.or(last);
            let is_quiet = world.now > world.quiet_since + ELECTED_WITHIN_MS;
            assert!(leader.is_some() || !is_quiet, "seed {seed}: none leads at {}", world.now);
        }
    }
    assert!(elections as u64 > 3 * seeds, "{elections} elections");
}

#[test]
fn another_candidate_leads_within_five_seconds_of_a_leaders_end() {
    for seed in 0..50 {
        let mut world = World::new(seed);
        let until = |world: &mut World, not: Option<usize>| {
            let begun = world.now;
            loop {
                if let Some(leader) = world.step(false).filter(|leader| Some(*leader) != not) {
                    return leader;
                }
                assert!(world.now < begun + ELECTED_WITHIN_MS, "seed {seed}");
            }
        };
        let first = until(&mut world, None);
        world.processes[first].paused_until = world.now + 60_000;
        let second = until(&mut world, Some(first));
        // The first one wakes, and finds its lease over.
        world.processes[first].paused_until = world.now;
        for _ in 0..2_000 {
            assert_eq!(world.step(false), Some(second), "seed {seed}");
        }
        assert_eq!(
            world.processes[first].candidate.leadership_status(Millis(world.now)),
            LeadershipStatus::Follows(Some(format!("c{second}")))
        );
    }
}

#[test]
fn an_answer_after_a_pause_counts_from_its_request() {
    let mut candidate = Candidate::default();
    let mut asks = |now: u64, answer: Option<Answer>| {
        let action = candidate.next(Millis(now));
        if let Some(answer) = answer {
            candidate.answered(Millis(now), Millis(now + 60_000), answer);
        }
        (action, candidate.leadership_status(Millis(now + 60_000)))
    };
    assert_eq!(asks(0, Some(Answer::Owner(None))).0, Action::Look);
    assert_eq!(asks(60_000, Some(Answer::Granted { lease: 7, seconds: 3 })).0, Action::Grant);
    // The lease has ended while the process was paused: another one is taken.
    assert_eq!(asks(120_000, None), (Action::Grant, LeadershipStatus::Follows(None)));
}
