//! What goes wrong, and how often.

use crate::random::Random;

/// How large a simulated cluster is and what happens to it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Plan {
    /// Agents.
    pub agents: usize,
    /// Devices of each, at most.
    pub devices: u32,
    /// Troubles.
    pub troubles: usize,
    /// Milliseconds over which they are spread.
    pub duration: u64,
    /// How long at most a coordinator is away, stopped or cut off, and agents are silent.
    pub outage: u64,
    /// How long a session may last; 0: for ever.
    pub session_time: u64,
    /// The core's invariants are checked after every so many steps that change something.
    pub check_every: u64,
}

impl Plan {
    /// Up to 16 agents.
    pub fn small(random: &mut Random) -> Self {
        let (agents, troubles) = (random.index(16) + 1, random.index(40));
        Self { agents, devices: 8, troubles, duration: 8_000, outage: 20_000, session_time: 0, check_every: 1 }
            .limited(random)
    }

    /// The same over half an hour, in which outages take minutes.
    pub fn long(random: &mut Random) -> Self {
        Self { duration: 1_800_000, outage: 400_000, ..Self::small(random) }.limited(random)
    }

    /// Half of the clusters let sessions last for ever, others let them end amid the trouble or after it.
    fn limited(self, random: &mut Random) -> Self {
        let longest = if random.chance(50) { self.duration / 2 } else { self.duration + self.outage };
        let session_time = if random.chance(50) { random.within(500..longest) } else { 0 };
        Self { session_time, ..self }
    }

    /// 1,000 agents with 8 devices each.
    pub fn full() -> Self {
        let (agents, session_time) = (1_000, 0);
        Self { agents, devices: 8, troubles: 120, duration: 6_000, outage: 20_000, session_time, check_every: 64 }
    }
}

/// One thing that goes wrong, or just happens.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Trouble {
    KillAgent,
    StopAgent,
    StartAgent,
    CutAgent,
    HealAgent,
    BreakLink,
    Open,
    Connect,
    EndProgram,
    KillCoordinator,
    Drain,
    CloseSession,
    CrashExecutor,
    PauseCoordinator,
    CutCoordinator,
    MassSilence,
}

impl Trouble {
    pub(super) fn any(random: &mut Random) -> Self {
        const LIKELY: [(Trouble, u64); 16] = [
            (Trouble::KillAgent, 6),
            (Trouble::StopAgent, 4),
            (Trouble::StartAgent, 10),
            (Trouble::CutAgent, 6),
            (Trouble::HealAgent, 6),
            (Trouble::BreakLink, 8),
            (Trouble::Open, 18),
            (Trouble::Connect, 20),
            (Trouble::EndProgram, 8),
            (Trouble::KillCoordinator, 3),
            (Trouble::Drain, 3),
            (Trouble::CloseSession, 3),
            (Trouble::CrashExecutor, 5),
            (Trouble::PauseCoordinator, 2),
            (Trouble::CutCoordinator, 2),
            (Trouble::MassSilence, 3),
        ];
        let mut left = random.within(0..LIKELY.iter().map(|(_, weight)| weight).sum());
        for (trouble, weight) in LIKELY {
            if left < weight {
                return trouble;
            }
            left -= weight;
        }
        Self::Open
    }
}
