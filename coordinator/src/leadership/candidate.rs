//! The decisions of a coordinator that stands for leader: what it asks etcd for next, and when it leads.
//!
//! The leader is the owner of a key that goes with a lease. A candidate looks at the key at intervals. Once the key does not exist, the candidate
//! takes a lease and puts the key in a transaction that demands its absence. The leader renews the lease. By its own clock the lease ends when
//! its time has passed since the last renewal was *requested*: never later than by etcd's clock. From then on the candidate leads no longer.

use accord_cluster::Millis;

/// The time of a lease, in seconds.
pub const LEASE_SECONDS: i64 = 3;
/// How often a follower looks at the leader's key.
const POLL_EVERY_MS: u64 = 250;
/// How often the leader renews its lease.
const RENEW_EVERY_MS: u64 = 500;
/// The pause after a request that has failed.
const PAUSE_MS: u64 = 100;
/// The part of a lease's time by which this machine's clock may be slower than etcd's.
const CLOCK_ERROR: u64 = 50;

/// A coordinator that stands for leader.
#[derive(Debug)]
pub struct Candidate {
    state: CandidateState,
    /// The owner of the leader's key, as it was read last.
    known: Option<Owner>,
}

#[derive(Clone, Debug)]
enum CandidateState {
    Follows {
        look_at: Millis,
    },
    /// The leader's key does not exist.
    Vacant,
    Stands {
        lease: Lease,
    },
    Leads {
        lease: Lease,
        revision: i64,
        renew_at: Millis,
    },
    Lost,
}

#[derive(Clone, Copy, Debug)]
struct Lease {
    id: i64,
    /// The lease may have ended from then on.
    until: Millis,
}

/// The owner of the leader's key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Owner {
    /// The address of the coordinator, as it advertises it.
    pub address: String,
    /// Its lease.
    pub lease: i64,
    /// The revision at which it has created the key.
    pub revision: i64,
}

/// The next action of a candidate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Action {
    /// Nothing before this time.
    Wait(Millis),
    /// Reads the leader's key.
    Look,
    /// Takes a lease of [`LEASE_SECONDS`].
    Grant,
    /// Puts the leader's key with this lease, if the key does not exist, and reads it otherwise.
    Stand {
        /// The lease.
        lease: i64,
        /// Time at which the lease may have ended.
        until: Millis,
    },
    /// Renews the lease.
    Renew {
        /// The lease.
        lease: i64,
        /// Time at which the lease may have ended.
        until: Millis,
    },
    /// Nothing any more: the leadership is lost.
    End,
}

/// etcd's answer to an action.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Answer {
    /// The owner of the leader's key, if the key exists.
    Owner(Option<Owner>),
    /// A lease, and its time in seconds.
    Granted {
        /// The lease.
        lease: i64,
        /// Its time.
        seconds: i64,
    },
    /// The leader's key is this candidate's, created at this revision.
    Elected(i64),
    /// The lease has this many seconds from now on; 0: it has expired.
    Renewed(i64),
    /// There is no answer.
    Failed,
}

/// The candidate's view of the leadership.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum LeadershipStatus {
    /// Another coordinator leads, or none does.
    Follows(Option<String>),
    /// This coordinator leads.
    Leads {
        /// The revision at which it has created the leader's key.
        revision: i64,
    },
    /// It has led, and does no longer.
    Lost,
}

impl Default for Candidate {
    fn default() -> Self {
        Self { state: CandidateState::Follows { look_at: Millis(0) }, known: None }
    }
}

impl Candidate {
    /// Returns what to do at this time. Requests are made one at a time, and [`Self::answered`] takes the answer.
    pub fn next(&mut self, now: Millis) -> Action {
        match self.state.clone() {
            CandidateState::Follows { look_at } if now < look_at => Action::Wait(look_at),
            CandidateState::Follows { .. } => Action::Look,
            CandidateState::Vacant => Action::Grant,
            CandidateState::Stands { lease } if now >= lease.until => {
                self.state = CandidateState::Vacant;
                Action::Grant
            }
            CandidateState::Stands { lease: Lease { id, until } } => Action::Stand { lease: id, until },
            CandidateState::Leads { lease, .. } if now >= lease.until => {
                self.state = CandidateState::Lost;
                Action::End
            }
            CandidateState::Leads { renew_at, .. } if now < renew_at => Action::Wait(renew_at),
            CandidateState::Leads { lease: Lease { id, until }, .. } => Action::Renew { lease: id, until },
            CandidateState::Lost => Action::End,
        }
    }

    /// Takes the answer to an action that was begun at `asked`.
    pub fn answered(&mut self, asked: Millis, now: Millis, answer: Answer) {
        let later = Millis(now.0.saturating_add(PAUSE_MS));
        self.state = match (self.state.clone(), answer) {
            (CandidateState::Follows { .. }, Answer::Owner(owner)) => {
                self.known = owner;
                match self.known {
                    Some(_) => CandidateState::Follows { look_at: Millis(now.0.saturating_add(POLL_EVERY_MS)) },
                    None => CandidateState::Vacant,
                }
            }
            (CandidateState::Vacant, Answer::Granted { lease, seconds }) => {
                CandidateState::Stands { lease: lease_of(lease, asked, seconds) }
            }
            (CandidateState::Stands { lease }, Answer::Elected(revision)) => {
                CandidateState::Leads { lease, revision, renew_at: asked }
            }
            // An earlier attempt was done whose answer was lost.
            (CandidateState::Stands { lease }, Answer::Owner(Some(owner))) if owner.lease == lease.id => {
                CandidateState::Leads { lease, revision: owner.revision, renew_at: asked }
            }
            (CandidateState::Stands { .. }, Answer::Owner(owner)) => {
                self.known = owner;
                CandidateState::Follows { look_at: later }
            }
            (CandidateState::Leads { .. }, Answer::Renewed(..=0)) => CandidateState::Lost,
            (CandidateState::Leads { lease, revision, .. }, Answer::Renewed(seconds)) => {
                let renew_at = Millis(asked.0.saturating_add(RENEW_EVERY_MS));
                CandidateState::Leads { lease: lease_of(lease.id, asked, seconds), revision, renew_at }
            }
            (CandidateState::Leads { lease, revision, .. }, _) => {
                CandidateState::Leads { lease, revision, renew_at: later }
            }
            // A lease that may have been taken ends by itself.
            (CandidateState::Follows { .. } | CandidateState::Vacant, _) => CandidateState::Follows { look_at: later },
            (CandidateState::Stands { lease }, _) => CandidateState::Stands { lease },
            (CandidateState::Lost, _) => CandidateState::Lost,
        };
    }

    /// Returns where the candidate stands at this time.
    pub fn leadership_status(&self, now: Millis) -> LeadershipStatus {
        match &self.state {
            CandidateState::Leads { lease, revision, .. } if now < lease.until => {
                LeadershipStatus::Leads { revision: *revision }
            }
            CandidateState::Leads { .. } | CandidateState::Lost => LeadershipStatus::Lost,
            CandidateState::Follows { .. } | CandidateState::Vacant | CandidateState::Stands { .. } => {
                LeadershipStatus::Follows(self.known.as_ref().map(|owner| owner.address.clone()))
            }
        }
    }

    /// Returns the lease, if the candidate leads.
    pub fn lease(&self) -> Option<i64> {
        match &self.state {
            CandidateState::Leads { lease, .. } => Some(lease.id),
            _ => None,
        }
    }
}

fn lease_of(id: i64, asked: Millis, seconds: i64) -> Lease {
    let ms = u64::try_from(seconds).unwrap_or(0).saturating_mul(1_000);
    Lease { id, until: Millis(asked.0.saturating_add(ms.saturating_sub(ms / CLOCK_ERROR))) }
}
