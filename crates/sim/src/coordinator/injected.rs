//! Kinds of trouble and their frequency.

use crate::random::Random;

/// The size of a simulated cluster, and its trouble.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Plan {
    /// Number of agents.
    pub agents: usize,
    /// Most devices of an agent.
    pub devices: u32,
    /// Number of troubles.
    pub troubles: usize,
    /// Milliseconds over which the troubles are spread.
    pub duration: u64,
    /// Longest outage of a coordinator or silence of an agent, in milliseconds.
    pub outage: u64,
    /// Time of a session, in milliseconds; 0 for no limit.
    pub session_time: u64,
    /// The core's invariants are checked after this many changes.
    pub check_every: u64,
}

impl Plan {
    /// Returns a plan with up to 16 agents.
    pub fn small(random: &mut Random) -> Self {
        let (agents, troubles) = (random.index(16) + 1, random.index(40));
        Self { agents, devices: 8, troubles, duration: 8_000, outage: 20_000, session_time: 0, check_every: 1 }
            .limited(random)
    }

    /// Returns a small plan over half an hour, with outages of minutes.
    pub fn long(random: &mut Random) -> Self {
        Self { duration: 1_800_000, outage: 400_000, ..Self::small(random) }.limited(random)
    }

    /// Limits the time of sessions in half of the clusters, so that they end during the trouble or after it.
    fn limited(self, random: &mut Random) -> Self {
        let longest = if random.chance(50) { self.duration / 2 } else { self.duration + self.outage };
        let session_time = if random.chance(50) { random.within(500..longest) } else { 0 };
        Self { session_time, ..self }
    }

    /// Returns a plan with 1,000 agents of 8 devices each.
    pub fn full() -> Self {
        let (agents, session_time) = (1_000, 0);
        Self { agents, devices: 8, troubles: 120, duration: 6_000, outage: 20_000, session_time, check_every: 64 }
    }
}

/// A trouble, or an ordinary event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum WorldEvent {
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

impl WorldEvent {
    pub(super) fn any(random: &mut Random) -> Self {
        const LIKELY: [(WorldEvent, u64); 16] = [
            (WorldEvent::KillAgent, 6),
            (WorldEvent::StopAgent, 4),
            (WorldEvent::StartAgent, 10),
            (WorldEvent::CutAgent, 6),
            (WorldEvent::HealAgent, 6),
            (WorldEvent::BreakLink, 8),
            (WorldEvent::Open, 18),
            (WorldEvent::Connect, 20),
            (WorldEvent::EndProgram, 8),
            (WorldEvent::KillCoordinator, 3),
            (WorldEvent::Drain, 3),
            (WorldEvent::CloseSession, 3),
            (WorldEvent::CrashExecutor, 5),
            (WorldEvent::PauseCoordinator, 2),
            (WorldEvent::CutCoordinator, 2),
            (WorldEvent::MassSilence, 3),
        ];
        let mut left = random.within(0..LIKELY.iter().map(|(_, weight)| weight).sum());
        for (injected, weight) in LIKELY {
            if left < weight {
                return injected;
            }
            left -= weight;
        }
        Self::Open
    }
}
