//! Bounds the connections and calls of each user and of all users. No user can shut out the others, and all users
//! together leave a quarter of the descriptors to agents and administrators.

use super::protocol::Protocol;
use accord_types::short_lock::ShortLock;
use accord_types::{Count, Error, ErrorCode, Result};
use std::collections::HashMap;
use std::sync::Arc;

/// Most connections of all users, and their part of the descriptors.
const CONNECTIONS_MAX: usize = 1 << 17;
const PART_OF_DESCRIPTORS: u64 = 2;
/// Most connections of one user, as a part of all.
const PART_OF_ONE_USER: usize = 2;
/// Most connections of one user's tools; programs are counted separately.
const TOOLS_OF_ONE_USER_MAX: usize = 32;
/// Most concurrent calls of Watch by one user.
const WATCHES_OF_ONE_USER_MAX: usize = 4;

/// Counts of the users' connections and calls.
pub(super) struct Tenants {
    /// Most connections of all users.
    most: usize,
    /// Descriptors of this process; `None` if there is no limit.
    descriptors: Option<u64>,
    taken: ShortLock<SlotCounts>,
}

#[derive(Default)]
struct SlotCounts {
    connections: usize,
    by_user: HashMap<String, Counts>,
}

#[derive(Default)]
struct Counts {
    connections: usize,
    tools: usize,
    watches: usize,
}

/// The user that a connection or a call is counted for.
#[derive(Clone, Debug)]
pub(super) struct CountedUser {
    /// The caller's name.
    pub(super) user: String,
    /// Whether the caller is an agent or an administrator, for whom descriptors are reserved.
    pub(super) is_trusted: bool,
}

/// The purpose of a slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Use {
    Program,
    Tool,
    Watch,
}

/// A user's slot for a connection or a call. Dropping it frees the slot.
pub(super) struct TenantSlot {
    tenants: Arc<Tenants>,
    /// `None` for an agent or administrator, whose connections are not counted.
    taken: Option<(String, Use)>,
}

impl Tenants {
    /// Creates counts for a process with this many descriptors; `None` if there is no limit.
    pub(super) fn new(descriptors: Option<u64>) -> Arc<Self> {
        let part = descriptors.and_then(|many| usize::try_from(many / PART_OF_DESCRIPTORS).ok());
        let most = part.map_or(CONNECTIONS_MAX, |part| part.clamp(PART_OF_ONE_USER, CONNECTIONS_MAX));
        Arc::new(Self { most, descriptors, taken: ShortLock::default() })
    }

    /// Takes a slot for a connection.
    ///
    /// # Errors
    /// Returns `acc_error_device_unavailable` if the quota of the caller, or that of all users, is exhausted.
    pub(super) fn connect(self: &Arc<Self>, user_name: CountedUser, protocol: Protocol) -> Result<TenantSlot> {
        self.enter(user_name, if protocol == Protocol::Grpc { Use::Tool } else { Use::Program })
    }

    /// Takes a slot for a call of Watch.
    ///
    /// # Errors
    /// Returns `acc_error_device_unavailable` if the caller's quota is exhausted.
    pub(super) fn watch(self: &Arc<Self>, user_name: CountedUser) -> Result<TenantSlot> {
        self.enter(user_name, Use::Watch)
    }

    fn enter(self: &Arc<Self>, user_name: CountedUser, purpose: Use) -> Result<TenantSlot> {
        let CountedUser { user, is_trusted } = user_name;
        if is_trusted && purpose != Use::Watch {
            return Ok(TenantSlot { tenants: self.clone(), taken: None });
        }
        let mut taken = self.taken.lock();
        let known = taken.by_user.get(&user);
        let of_one = self.most.div_ceil(PART_OF_ONE_USER);
        let (connections, tools, watches) =
            known.map_or((0, 0, 0), |known| (known.connections, known.tools, known.watches));
        if purpose == Use::Watch {
            if watches >= WATCHES_OF_ONE_USER_MAX {
                let what = Count(watches, "call");
                return Err(quota(format!("{user} has {what} of Watch, the quota of one user"), "end one of them"));
            }
        } else if connections >= of_one {
            let what = Count(connections, "connection");
            return Err(quota(
                format!("{user} has {what} to the coordinator, the quota of one user{}", self.why(PART_OF_ONE_USER)),
                MORE_DESCRIPTORS,
            ));
        } else if taken.connections >= self.most {
            let what = Count(self.most, "connection");
            return Err(quota(
                format!("users have {what} to the coordinator, the quota of all together{}", self.why(1)),
                MORE_DESCRIPTORS,
            ));
        } else if purpose == Use::Tool && tools >= TOOLS_OF_ONE_USER_MAX {
            let what = Count(tools, "connection");
            let cause = format!("tools of {user} have {what} to the coordinator, the quota of one user");
            return Err(quota(cause, "end some of the user's tools"));
        }
        let counts = taken.by_user.entry(user.clone()).or_default();
        match purpose {
            Use::Watch => counts.watches += 1,
            Use::Tool | Use::Program => counts.connections += 1,
        }
        counts.tools += usize::from(purpose == Use::Tool);
        taken.connections += usize::from(purpose != Use::Watch);
        drop(taken);
        Ok(TenantSlot { tenants: self.clone(), taken: Some((user, purpose)) })
    }

    /// Returns the reason for the bound, if the system's limit on descriptors sets it.
    fn why(&self, parts: usize) -> String {
        let Some(descriptors) = self.descriptors.filter(|_| self.most < CONNECTIONS_MAX) else { return String::new() };
        let part = if parts == 1 { "half" } else { "a quarter" };
        format!(" ({part} of the coordinator's {descriptors} descriptors)")
    }
}

impl Drop for TenantSlot {
    fn drop(&mut self) {
        let Some((user, purpose)) = self.taken.take() else { return };
        let mut taken = self.tenants.taken.lock();
        taken.connections -= usize::from(purpose != Use::Watch);
        let Some(counts) = taken.by_user.get_mut(&user) else { return };
        match purpose {
            Use::Watch => counts.watches -= 1,
            Use::Tool | Use::Program => counts.connections -= 1,
        }
        counts.tools -= usize::from(purpose == Use::Tool);
        if counts.connections + counts.watches == 0 {
            taken.by_user.remove(&user);
        }
    }
}

const MORE_DESCRIPTORS: &str =
    "end some of the user's programs, or raise the coordinator's limit on open files (ulimit -n, LimitNOFILE)";

fn quota(cause: String, remedy: &'static str) -> Error {
    Error::new(ErrorCode::DeviceUnavailable, cause).remedy(remedy)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user_name(user: &str, is_trusted: bool) -> CountedUser {
        CountedUser { user: user.to_owned(), is_trusted }
    }

    #[test]
    fn a_user_leaves_room_for_others_and_all_users_for_agents() {
        let tenants = Tenants::new(Some(64));
        let enter = |name: &str| tenants.connect(user_name(&format!("tenant {name}"), false), Protocol::Session);
        let eva: Vec<TenantSlot> = std::iter::from_fn(|| enter("eva").ok()).collect();
        assert_eq!(eva.len(), 16);
        let error = enter("eva").err().unwrap().to_string();
        assert!(error.contains("tenant eva has 16 connections") && error.contains("quota of one user"), "{error}");
        assert!(error.contains("a quarter of the coordinator's 64 descriptors"), "{error}");
        let ada: Vec<TenantSlot> = std::iter::from_fn(|| enter("ada").ok()).collect();
        assert_eq!(ada.len(), 16);
        let error = enter("bob").err().unwrap().to_string();
        assert!(error.contains("quota of all together (half of"), "{error}");
        for trusted in ["agent h1", "admin boss"].map(|name| user_name(name, true)) {
            let places: Vec<TenantSlot> =
                (0..99).map(|_| tenants.connect(trusted.clone(), Protocol::Grpc).ok().unwrap()).collect();
            drop(places);
        }
        drop(eva);
        assert!(enter("bob").is_ok() && enter("eva").is_ok());
        drop(ada);
        assert!(tenants.taken.lock().by_user.is_empty() && tenants.taken.lock().connections == 0);
    }

    #[test]
    fn tools_and_watches_have_bounds_of_their_own() {
        let tenants = Tenants::new(None);
        let eva = user_name("tenant eva", false);
        let tools: Vec<TenantSlot> = std::iter::from_fn(|| tenants.connect(eva.clone(), Protocol::Grpc).ok()).collect();
        assert_eq!(tools.len(), TOOLS_OF_ONE_USER_MAX);
        assert!(tenants.connect(eva.clone(), Protocol::Session).is_ok());
        for watcher in [eva, user_name("admin boss", true)] {
            let watches: Vec<TenantSlot> = std::iter::from_fn(|| tenants.watch(watcher.clone()).ok()).collect();
            assert_eq!(watches.len(), WATCHES_OF_ONE_USER_MAX);
        }
    }
}
