use super::*;
use proptest::prelude::*;
use std::collections::BTreeSet;

const MS: Duration = Duration::from_millis(1);
const US: Duration = Duration::from_micros(1);
/// Time that a message takes.
const MESSAGE: Duration = Duration::from_micros(20);

/// How a simulated process uses the device.
#[derive(Clone, Copy, Debug)]
struct Program {
    weight: Weight,
    /// Duration of each region.
    region: Duration,
    /// Time between the end of a region and the next launch; zero for a program that always has regions to run.
    pause: Duration,
    /// When the process stops without a word, as by a signal.
    stops: Option<Duration>,
}

fn of(milli: u32) -> Weight {
    Weight { milli, job: None }
}

fn saturating(milli: u32, region: Duration) -> Program {
    Program { weight: of(milli), region, pause: Duration::ZERO, stops: None }
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Event {
    Launch(Member),
    RegionEnds(Member),
    Held { member: Member, turn: u64, until: Option<Duration> },
    Idle { member: Member, turn: u64 },
    Wants(Member),
    Returned { member: Member, turn: u64, wants: bool },
    Tick,
}

#[derive(Debug, Default)]
struct Process {
    turn: Option<(u64, Option<Duration>)>,
    /// The time of the launch that waits, or runs.
    launched: Option<Duration>,
    runs: bool,
    asked: bool,
    ran: Duration,
    longest_wait: Duration,
}

/// Processes and one device, in virtual time.
struct Simulation {
    now: Duration,
    turns: DeviceTurns,
    programs: Vec<Program>,
    processes: Vec<Process>,
    events: BTreeSet<(Duration, u64, Event)>,
    number: u64,
}

impl Simulation {
    fn new(programs: &[Program]) -> Self {
        let mut simulation = Self {
            now: Duration::ZERO,
            turns: DeviceTurns::default(),
            programs: programs.to_vec(),
            processes: programs.iter().map(|_| Process::default()).collect(),
            events: BTreeSet::new(),
            number: 0,
        };
        for (at, program) in programs.iter().enumerate() {
            let member = Member(at as u64);
            let mut out = Vec::new();
            simulation.turns.join(Duration::ZERO, member, 1, program.weight, &mut out);
            simulation.send(out);
            simulation.add(program.pause, Event::Launch(member));
        }
        simulation
    }

    fn add(&mut self, after: Duration, event: Event) {
        self.number += 1;
        self.events.insert((self.now + after, self.number, event));
    }

    fn send(&mut self, out: Vec<Hold>) {
        for Hold { member, turn, limit, .. } in out {
            let until = limit.map(|limit| self.now + MESSAGE + limit);
            self.add(MESSAGE, Event::Held { member, turn, until });
        }
        if let Some(deadline) = self.turns.next_deadline() {
            self.add(deadline.saturating_sub(self.now), Event::Tick);
        }
    }

    fn run(&mut self, until: Duration) {
        while let Some((at, _, event)) = self.events.first().copied().filter(|(at, ..)| *at <= until) {
            self.events.pop_first();
            self.now = at;
            self.apply(event);
        }
        self.now = until;
    }

    fn apply(&mut self, event: Event) {
        let (now, mut out) = (self.now, Vec::new());
        match event {
            Event::Tick => self.turns.tick(now, &mut out),
            Event::Wants(member) => self.turns.wants(now, member, &mut out),
            Event::Returned { member, turn, wants } => {
                self.turns.returns(now, member, turn, NextTurn::wanted_if(wants), &mut out);
            }
            Event::Launch(member)
            | Event::RegionEnds(member)
            | Event::Held { member, .. }
            | Event::Idle { member, .. } => {
                let at = member.0 as usize;
                if self.programs[at].stops.is_none_or(|stops| now < stops) {
                    self.process(member, at, event);
                }
            }
        }
        self.send(out);
    }

    fn process(&mut self, member: Member, at: usize, event: Event) {
        let (now, program) = (self.now, self.programs[at]);
        let process = &mut self.processes[at];
        match event {
            Event::Held { turn, until, .. } => match process.turn {
                Some((held, known)) if held == turn => {
                    process.turn = Some((turn, Some(until.unwrap().min(known.unwrap_or(Duration::MAX)))));
                }
                _ => {
                    process.turn = Some((turn, until));
                    process.asked = false;
                }
            },
            Event::Launch(_) => process.launched = Some(now),
            Event::RegionEnds(_) => {
                process.runs = false;
                process.ran += program.region;
                process.launched = (program.pause == Duration::ZERO).then_some(now);
                if program.pause > Duration::ZERO {
                    self.add(program.pause, Event::Launch(member));
                }
            }
            _ => {}
        }
        let process = &mut self.processes[at];
        if process.runs {
            return;
        }
        match (process.turn, process.launched) {
            (Some((turn, Some(until))), launched) if until <= now || launched.is_none() => {
                let wants = launched.is_some();
                process.turn = None;
                process.asked = wants;
                self.add(MESSAGE, Event::Returned { member, turn, wants });
            }
            (Some((turn, until)), Some(launched)) => {
                process.runs = true;
                process.longest_wait = process.longest_wait.max(now - launched);
                self.add(program.region, Event::RegionEnds(member));
                if let Some(until) = until {
                    self.add(until - now, Event::Idle { member, turn });
                }
            }
            (None, Some(_)) if !process.asked => {
                process.asked = true;
                self.add(MESSAGE, Event::Wants(member));
            }
            _ => {}
        }
    }

    /// Returns each process's part of the time that all of them ran.
    fn shares(&self) -> Vec<f64> {
        let all: f64 = self.processes.iter().map(|process| process.ran.as_secs_f64()).sum();
        self.processes.iter().map(|process| process.ran.as_secs_f64() / all).collect()
    }
}

#[test]
fn saturating_sessions_get_their_shares_with_regions_of_any_length() {
    for region in [50 * US, MS, 10 * MS, 300 * MS] {
        let mut simulation = Simulation::new(&[saturating(250, region), saturating(750, region)]);
        simulation.run(400 * region + 4_000 * MS);
        let shares = simulation.shares();
        assert!((shares[0] - 0.25).abs() < 0.02, "{region:?}: {shares:?}");
        let ran: Duration = simulation.processes.iter().map(|process| process.ran).sum();
        assert!(ran.as_secs_f64() > 0.97 * simulation.now.as_secs_f64(), "{region:?}: {ran:?}");
    }
}

#[test]
fn regions_of_different_lengths_do_not_change_the_shares() {
    let mut simulation = Simulation::new(&[saturating(500, 70 * MS), saturating(500, 90 * US)]);
    simulation.run(20_000 * MS);
    let shares = simulation.shares();
    assert!((shares[0] - 0.5).abs() < 0.02, "{shares:?}");
}

#[test]
fn processes_of_one_job_divide_its_share() {
    let job = Some(SessionKey([7; SessionKey::LEN]));
    let rank = Program { weight: Weight { milli: 500, job }, ..saturating(500, MS) };
    let mut simulation = Simulation::new(&[rank, rank, rank, saturating(500, MS)]);
    simulation.run(10_000 * MS);
    let shares = simulation.shares();
    assert!((shares[3] - 0.5).abs() < 0.02 && (shares[0] - shares[2]).abs() < 0.02, "{shares:?}");
    // One of them alone has the whole share.
    let mut simulation = Simulation::new(&[rank, rank, saturating(500, MS)]);
    simulation.events.retain(|(_, _, event)| *event != Event::Launch(Member(1)));
    simulation.run(10_000 * MS);
    let shares = simulation.shares();
    assert!((shares[2] - 0.5).abs() < 0.02, "{shares:?}");
}

#[test]
fn a_light_session_waits_for_at_most_one_region_of_another() {
    for (region, others) in [(50 * US, 1), (10 * MS, 1), (10 * MS, 3)] {
        let light = Program { weight: of(100), region: 20 * US, pause: 7_300 * US, stops: None };
        let mut programs = vec![saturating(900 / others, region); others as usize];
        programs.push(light);
        let mut simulation = Simulation::new(&programs);
        // At first all of them begin to wait.
        simulation.run(500 * MS);
        simulation.processes[others as usize].longest_wait = Duration::ZERO;
        simulation.run(5_000 * MS);
        let wait = simulation.processes[others as usize].longest_wait;
        assert!(wait <= region + INTERRUPTED_TURN_MIN + 4 * MESSAGE, "{region:?}, {others} others: {wait:?}");
        assert!(simulation.processes[others as usize].ran >= 200 * light.region, "{region:?}");
    }
}

#[test]
fn a_session_that_waits_for_each_region_gets_no_more_than_its_share() {
    // It begins to wait anew for each region, and each time with credit.
    let waits = Program { weight: of(250), region: 2 * MS, pause: 10 * US, stops: None };
    let mut simulation = Simulation::new(&[waits, saturating(750, MS)]);
    simulation.run(10_000 * MS);
    let shares = simulation.shares();
    assert!(shares[0] < 0.28 && shares[0] > 0.18, "{shares:?}");
}

#[test]
fn an_idle_session_saves_no_credit() {
    let late = Program { weight: of(500), region: MS, pause: Duration::ZERO, stops: None };
    let mut simulation = Simulation::new(&[saturating(500, MS), late]);
    // It launches nothing for 10 s.
    simulation.events.retain(|(_, _, event)| *event != Event::Launch(Member(1)));
    simulation.run(10_000 * MS);
    simulation.processes.iter_mut().for_each(|process| process.ran = Duration::ZERO);
    simulation.add(Duration::ZERO, Event::Launch(Member(1)));
    simulation.run(11_000 * MS);
    let shares = simulation.shares();
    assert!((shares[1] - 0.5).abs() < 0.04, "{shares:?}");
}

#[test]
fn a_stopped_holder_delays_others_once() {
    let stops = Program { stops: Some(500 * MS), ..saturating(500, MS) };
    let mut simulation = Simulation::new(&[stops, saturating(250, MS), saturating(250, MS)]);
    simulation.run(10_000 * MS);
    for process in &simulation.processes[1..] {
        // Of 9.5 s, one turn and the time limit of its return are lost.
        assert!(process.ran > 4_000 * MS, "{process:?}");
        assert!(process.longest_wait < RETURN_MAX + 3 * WHOLE_TURN, "{process:?}");
    }
}

#[test]
fn a_long_region_runs_on_and_is_charged() {
    let mut simulation = Simulation::new(&[saturating(500, 2_500 * MS), saturating(500, MS)]);
    simulation.run(30_000 * MS);
    assert!(simulation.processes[1].longest_wait < RETURN_MAX + WHOLE_TURN, "{:?}", simulation.processes[1]);
    // Both ran at once for a part of the time, for which the long region is charged.
    let shares = simulation.shares();
    assert!(shares[0] < 0.62, "{shares:?}");
}

#[test]
fn a_debt_outlives_its_process() {
    let of_job = |job, milli| Weight { milli, job: Some(SessionKey([job; SessionKey::LEN])) };
    let (mut turns, mut out) = (DeviceTurns::default(), Vec::new());
    let (victim, hog) = (Member(0), Member(1));
    turns.join(Duration::ZERO, victim, 1, of_job(1, 990), &mut out);
    turns.join(Duration::ZERO, hog, 1, of_job(2, 10), &mut out);
    turns.wants(Duration::ZERO, hog, &mut out);
    turns.returns(MS, victim, 1, NextTurn::Wanted, &mut out);
    let held = turns.next_deadline().unwrap();
    assert_eq!(turns.holder.map(|holder| holder.member), Some(hog));
    turns.tick(held, &mut out);
    assert_eq!(turns.holder.map(|holder| holder.member), Some(victim));
    // Neither the same process nor another one of the job begins without the debt.
    for (join, member) in [(2, hog), (1, Member(2))] {
        if member != hog {
            turns.leave(held, hog, &mut out);
            assert_eq!(turns.kept.len(), 1);
        }
        turns.join(held, member, join, of_job(2, 10), &mut out);
        out.clear();
        turns.wants(held, member, &mut out);
        assert!(turns.kept.is_empty() && turns.sparse.is_empty() && turns.waiting.len() == 1);
        assert!(turns.members[&member].credit < -nanos(900 * MS), "{:?}", turns.members[&member]);
    }
    assert!(turns.holder.and_then(|holder| holder.ends).unwrap() >= held + TURN_MIN);
    // A debt that is paid is not kept.
    turns.leave(held, Member(2), &mut out);
    assert_eq!(turns.kept.len(), 1);
    let later = held + 1_000 * DEBT_MAX;
    turns.join(later, Member(3), 1, of(10), &mut out);
    turns.wants(later, Member(3), &mut out);
    turns.leave(later, Member(3), &mut out);
    assert!(turns.kept.is_empty());
}

#[test]
fn debts_of_a_job_add_up_and_the_least_are_dropped() {
    let mut turns = DeviceTurns::default();
    let account = |job: u16, credit| {
        let mut key = [0; SessionKey::LEN];
        key[..2].copy_from_slice(&job.to_le_bytes());
        let weight = Weight { milli: 10, job: Some(SessionKey(key)) };
        Account { weight, join: 1, credit, round: 0, overdue: None }
    };
    turns.keep(account(1, -3_000_000));
    turns.keep(account(1, 100));
    turns.keep(account(1, -4_000_000));
    assert_eq!(turns.kept.values().map(|kept| kept.credit).collect::<Vec<_>>(), [-7_000_000]);
    (2..2_000).for_each(|job| turns.keep(account(job, -i64::from(job))));
    assert!(turns.kept.len() == KEPT_MAX && turns.kept.values().any(|kept| kept.credit == -7_000_000));
}

#[test]
fn a_turn_of_an_earlier_join_tells_that_a_region_waits() {
    let (mut turns, mut out) = (DeviceTurns::default(), Vec::new());
    for join in [1, 2] {
        turns.join(Duration::ZERO, Member(0), join, of(500), &mut out);
    }
    assert_eq!(out.iter().map(|hold| (hold.join, hold.turn)).collect::<Vec<_>>(), [(1, 1), (2, 2)]);
    turns.join(Duration::ZERO, Member(1), 1, of(500), &mut out);
    turns.returns(Duration::ZERO, Member(1), 1, NextTurn::Wanted, &mut out);
    assert!(turns.sparse.contains(&Member(1)));
}

fn random_program() -> impl Strategy<Value = Program> {
    let region = prop_oneof![200..400u32, 500..2_000u32, 5_000..20_000u32].prop_map(|us| us * US);
    let pause = prop_oneof![2 => Just(Duration::ZERO), 1 => (1..20_000u32).prop_map(|us| us * US)];
    let stops = prop_oneof![5 => Just(None), 1 => (0..3_000u32).prop_map(|ms| Some(ms * MS))];
    (1..1_000u32, region, pause, stops).prop_map(|(milli, region, pause, stops)| Program {
        weight: of(milli),
        region,
        pause,
        stops,
    })
}

/// A call by a process that may not keep to the protocol.
#[derive(Clone, Copy, Debug)]
enum Call {
    Join(Weight),
    Leave,
    Wants,
    Returns { ago: u64, next: NextTurn },
}

fn call() -> impl Strategy<Value = Call> {
    prop_oneof![
        1 => (0..2_000u32, prop::option::of(0..2u8)).prop_map(|(milli, job)| {
            Call::Join(Weight { milli, job: job.map(|job| SessionKey([job; SessionKey::LEN])) })
        }),
        1 => Just(Call::Leave),
        4 => Just(Call::Wants),
        4 => (0..3u64, any::<bool>()).prop_map(|(ago, wants)| Call::Returns { ago, next: NextTurn::wanted_if(wants) }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    /// No process starves: in a time in which all others have had their turns, each has run.
    #[test]
    fn every_process_that_waits_gets_a_turn(programs in prop::collection::vec(random_program(), 2..6)) {
        let mut simulation = Simulation::new(&programs);
        simulation.run(5_000 * MS);
        let stopped = programs.iter().filter(|program| program.stops.is_some()).count() as u32;
        // A round gives 80 ms in all, and a share of a thousandth has its shortest turn in one of 62 rounds.
        let least = programs.iter().map(|program| program.weight.milli).min().unwrap_or(1);
        let rounds = 1 + (TURN_MIN + 20 * MS).as_nanos() as u32 * 2 / (WHOLE_TURN.as_nanos() as u32 / 1_000 * least).max(1);
        let round = (WHOLE_TURN + 20 * MS + MS) * programs.len() as u32;
        let bound = round * (rounds + 1) + (RETURN_MAX + WHOLE_TURN) * stopped;
        for (program, process) in programs.iter().zip(&simulation.processes) {
            let since = process.launched.filter(|_| program.stops.is_none());
            let waits = since.map_or(Duration::ZERO, |since| simulation.now.saturating_sub(since));
            prop_assert!(process.longest_wait.max(waits) <= bound, "{program:?} {process:?}, bound {bound:?}");
        }
    }

    /// One process at most has a turn that is not overdue, and one has it if any waits, whatever processes do.
    #[test]
    fn the_device_is_neither_given_twice_nor_left_idle(calls in prop::collection::vec((0..5u64, call(), 0..30_000u32), 1..300)) {
        let (mut turns, mut now, mut last) = (DeviceTurns::default(), Duration::ZERO, 0);
        for (member, call, us) in calls {
            now += us * US;
            let (member, mut out) = (Member(member), Vec::new());
            turns.tick(now, &mut out);
            match call {
                Call::Join(weight) => turns.join(now, member, 1, weight, &mut out),
                Call::Leave => turns.leave(now, member, &mut out),
                Call::Wants => turns.wants(now, member, &mut out),
                Call::Returns { ago, next } => {
                    turns.returns(now, member, turns.turns.saturating_sub(ago), next, &mut out);
                }
            }
            for hold in out {
                prop_assert!(turns.members.contains_key(&hold.member) && hold.turn >= last);
                last = hold.turn;
            }
            prop_assert!(turns.holder.is_some() || !turns.is_contended());
            prop_assert!(turns.holder.is_none_or(|holder| turns.members.contains_key(&holder.member)));
            let waiting: Vec<_> = turns.sparse.iter().chain(&turns.waiting).collect();
            let different: BTreeSet<_> = waiting.iter().collect();
            prop_assert_eq!(waiting.len(), different.len(), "a process waits twice");
            prop_assert!(turns.holder.is_none_or(|holder| !waiting.contains(&&holder.member)));
            prop_assert!(turns.holder.is_none_or(|holder| holder.ends.is_some()) || !turns.is_contended());
            prop_assert!(turns.members.values().chain(turns.kept.values()).all(|account| account.credit >= -nanos(DEBT_MAX)));
            prop_assert!(turns.kept.len() <= 2);
        }
    }
}
