//! Roles, faults, phases, and the due outcomes.

use std::fmt;

macro_rules! names {
    ($name:ident { $($variant:ident = $text:literal),* $(,)? }) => {
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
        pub(crate) enum $name { $($variant),* }
        impl $name {
            pub(crate) const ALL: &[Self] = &[$(Self::$variant),*];
        }
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(match self { $(Self::$variant => $text),* })
            }
        }
    };
}

names!(Role {
    Program = "program",
    Worker = "worker",
    Executor = "executor",
    Agent = "agent",
    Coordinator = "coordinator",
    Run = "`accord run`",
    Rank = "MPI rank",
});

names!(Fault {
    Killed = "killed",
    StoppedShort = "stopped for 2 s",
    StoppedLong = "stopped for 9 s",
    StoppedByDefault = "stopped for 15 s, default times",
    StoppedForEver = "stopped for ever",
    NoDescriptors = "no descriptors",
    NoThreads = "no threads, no processes",
    NoMemory = "no address space",
    NoFileSpace = "no room in files",
    ClockBack = "clock set back by 1 h",
    LinkDown = "link cut for 0.5 s",
    LinkDownLonger = "link cut for 2 s",
    LinkDownForLong = "link cut for 30 s",
    LinkSlow = "link slow",
});

names!(Phase { Start = "start", Open = "open", Launch = "launch", Copies = "copies", D2d = "d2d", Wait = "wait", Close = "close" });

names!(Lanes { SharedMemory = "shared memory", Tls = "TLS over TCP" });

impl Lanes {
    /// Returns the lanes of a try. They alternate among the tries of a fault, and among those of a fault in the same
    /// phase.
    pub(crate) fn of(number: usize, cases: &[(Fault, Phase, Due)]) -> Self {
        let (at, turn) = (number % cases.len(), number / cases.len());
        let fault = cases[at].0;
        let before = cases[..at].iter().filter(|case| case.0 == fault).count();
        // Faults alternate, too: a run with each fault once uses both kinds.
        if fault.is_link() || (fault as usize + before + turn) % 2 == 1 { Self::Tls } else { Self::SharedMemory }
    }
}

impl Fault {
    pub(crate) fn is_link(self) -> bool {
        matches!(self, Self::LinkDown | Self::LinkDownLonger | Self::LinkDownForLong | Self::LinkSlow)
    }

    /// Whether times are as users have them, instead of shortened for tests.
    pub(crate) fn has_default_times(self) -> bool {
        self == Self::StoppedByDefault
    }

    pub(crate) fn is_limit(self) -> bool {
        matches!(self, Self::NoDescriptors | Self::NoThreads | Self::NoMemory | Self::NoFileSpace)
    }
}

impl Phase {
    /// Returns the program's argument; the program knows no earlier phases.
    pub(crate) fn argument(self) -> String {
        if self == Self::Start { Self::Open } else { self }.to_string()
    }
}

/// The due outcome of a try.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Due {
    /// The program goes on to its end, with right results.
    GoesOn,
    /// The program ends with an error that names what was lost.
    Error,
    /// Either: it depends on what the program needed at that moment.
    Either,
    /// The target has ended, with all its descendants.
    Gone,
}

/// Returns the due outcome; `None` if the fault can't happen to this role, or is tested elsewhere.
pub(crate) fn due(role: Role, fault: Fault, phase: Phase) -> Option<Due> {
    use Fault::{
        ClockBack, Killed, LinkDownForLong, LinkSlow, StoppedByDefault, StoppedForEver, StoppedLong, StoppedShort,
    };
    let edge = matches!(phase, Phase::Open | Phase::Close);
    let is_link = fault.is_link();
    let is_limit = fault.is_limit();
    Some(match (role, fault) {
        // Before the program starts, there is only `accord run`. With limits from its start they hold for all that it
        // starts.
        (Role::Run, _) if phase == Phase::Start && is_limit => Due::Either,
        (Role::Run, Killed | StoppedShort | StoppedForEver | ClockBack) if phase == Phase::Start => match fault {
            StoppedShort | ClockBack => Due::GoesOn,
            _ => Due::Gone,
        },
        (_, _) if phase == Phase::Start => return None,
        // No timeout depends on a clock that can be set.
        (_, ClockBack) => Due::GoesOn,
        // Only hosts of `accord run` have links.
        (Role::Run, LinkDownForLong) => {
            if edge {
                Due::Either
            } else {
                Due::Error
            }
        }
        (Role::Run, _) if is_link => {
            if phase == Phase::Open && fault != LinkSlow {
                Due::Either
            } else {
                Due::GoesOn
            }
        }
        // The coordinator's link alone. A program that opens a session retries for less time than the longest cut.
        (Role::Coordinator, LinkDownForLong) if phase == Phase::Open => Due::Either,
        (Role::Coordinator, _) if is_link => Due::GoesOn,
        (_, _) if is_link => return None,
        (Role::Run, Killed | StoppedForEver) => Due::Gone,
        // What it needs until the end, it has or acquires.
        (Role::Run, _) => Due::GoesOn,
        // A rank may have ended before it is hit.
        (Role::Rank, Killed) => {
            if edge {
                Due::Either
            } else {
                Due::Error
            }
        }
        (Role::Program, Killed) | (Role::Program | Role::Rank, StoppedForEver) => Due::Gone,
        (Role::Program | Role::Rank, StoppedShort | StoppedLong | StoppedByDefault) => Due::GoesOn,
        // Only a program that opens a session waits for the coordinator to return.
        (Role::Coordinator, Killed | StoppedShort | StoppedLong | StoppedByDefault) => Due::GoesOn,
        (Role::Coordinator, StoppedForEver) if phase == Phase::Open => return None,
        (Role::Coordinator, StoppedForEver) => Due::GoesOn,
        // The coordinator keeps its descriptors and memory, and needs no others.
        (Role::Coordinator, _) => {
            if phase == Phase::Open {
                Due::Either
            } else {
                Due::GoesOn
            }
        }
        // An agent's executors end with it, but do not need it.
        (Role::Agent, Killed) => {
            if edge {
                Due::Either
            } else {
                Due::Error
            }
        }
        (Role::Agent, StoppedShort) => Due::GoesOn,
        (Role::Agent, _) => {
            if phase == Phase::Open {
                Due::Either
            } else {
                Due::GoesOn
            }
        }
        // Copies need no worker.
        (Role::Worker, StoppedForEver | StoppedLong) if matches!(phase, Phase::Copies | Phase::D2d) => Due::Either,
        (Role::Worker | Role::Executor, Killed | StoppedForEver | StoppedLong) => {
            if edge {
                Due::Either
            } else {
                Due::Error
            }
        }
        (Role::Worker | Role::Executor, StoppedShort | StoppedByDefault) => Due::GoesOn,
        (Role::Program | Role::Rank | Role::Worker | Role::Executor, _) if is_limit => Due::Either,
        (Role::Program | Role::Rank | Role::Worker | Role::Executor, _) => return None,
    })
}

/// Returns all tries on a role: each fault once before any is repeated, in an order in which neighbours differ.
pub(crate) fn cases(role: Role) -> Vec<(Fault, Phase, Due)> {
    let mut random = Shuffle(7);
    let mut faults: Vec<Vec<(Fault, Phase, Due)>> = Fault::ALL
        .iter()
        .map(|&fault| Phase::ALL.iter().filter_map(|&phase| Some((fault, phase, due(role, fault, phase)?))).collect())
        .collect();
    random.mix(&mut faults);
    faults.iter_mut().for_each(|phases| random.mix(phases));
    (0..Phase::ALL.len()).flat_map(|round| faults.iter().filter_map(move |phases| phases.get(round))).copied().collect()
}

/// A fixed pseudo-random order, which is not the table's.
struct Shuffle(u64);

impl Shuffle {
    fn mix<T>(&mut self, all: &mut [T]) {
        for at in (1..all.len()).rev() {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            all.swap(at, (self.0 >> 33) as usize % (at + 1));
        }
    }
}

#[test]
fn each_second_try_of_a_fault_has_other_lanes() {
    for role in Role::ALL {
        let cases = cases(*role);
        for fault in Fault::ALL.iter().filter(|fault| !fault.is_link()) {
            let of_fault = |number: &usize| cases[number % cases.len()].0 == *fault;
            let lanes: Vec<Lanes> = (0..cases.len()).filter(of_fault).map(|number| Lanes::of(number, &cases)).collect();
            assert!(lanes.windows(2).all(|two| two[0] != two[1]), "{role}, {fault}: {lanes:?}");
        }
        // The next round gives each phase the other kind of lanes.
        let linked = |number: usize| cases[number].0.is_link();
        let changes = |number: usize| Lanes::of(number, &cases) != Lanes::of(number + cases.len(), &cases);
        assert!((0..cases.len()).all(|number| linked(number) || changes(number)), "{role}");
        let faults: std::collections::BTreeSet<Fault> = cases.iter().map(|case| case.0).collect();
        let lanes: std::collections::BTreeSet<Lanes> =
            (0..faults.len()).map(|number| Lanes::of(number, &cases)).collect();
        assert_eq!(lanes.len(), Lanes::ALL.len(), "{role}: a run that takes each fault once");
    }
}
