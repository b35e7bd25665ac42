//! Unix groups of users, which policies may name.

use super::driver::Driver;
use accord_cluster::Input;
use accord_proto::threads::on_thread;
use accord_types::short_lock::ShortLock;
use nix::unistd::{Group, User, getgrouplist};
use std::collections::HashMap;
use std::ffi::CString;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::Semaphore;

/// Most concurrent queries, because the user database may be on another machine.
const LOOKUPS_MAX: usize = 4;
/// Time for which an answer is cached.
const KNOWN_FOR: Duration = Duration::from_secs(60);
/// Most users in the cache. A full cache is cleared.
const KNOWN_MAX: usize = 4_096;

/// A cache of users' Unix groups.
pub(super) struct Groups {
    lookups: Arc<Semaphore>,
    known: ShortLock<HashMap<String, Instant>>,
}

impl Groups {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self { lookups: Arc::new(Semaphore::new(LOOKUPS_MAX)), known: ShortLock::default() })
    }

    /// Passes a user's groups to the core. An unknown user has no groups.
    pub(super) async fn notify(&self, driver: &Driver, user: &str) {
        if self.known.lock().get(user).is_some_and(|at| at.elapsed() < KNOWN_FOR) {
            return;
        }
        let Ok(turn) = self.lookups.clone().acquire_owned().await else { return };
        let name = user.to_owned();
        match on_thread("accord-groups", turn, move || groups_of(&name)).await {
            Ok(groups) => driver.input(Input::Groups { user: user.to_owned(), groups }),
            Err(error) => return tracing::warn!("the groups of user {user:?} are not known: {error}"),
        }
        let mut known = self.known.lock();
        if known.len() >= KNOWN_MAX {
            known.clear();
        }
        known.insert(user.to_owned(), Instant::now());
    }
}

fn groups_of(user: &str) -> Vec<String> {
    let (Ok(Some(found)), Ok(name)) = (User::from_name(user), CString::new(user)) else { return Vec::new() };
    let ids = getgrouplist(&name, found.gid).unwrap_or_default();
    ids.into_iter().filter_map(|id| Some(Group::from_gid(id).ok()??.name)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_system_knows_the_groups_of_root() {
        assert!(groups_of("root").contains(&"root".to_owned()));
        assert!(groups_of("no such user").is_empty() && groups_of("a\0b").is_empty());
    }
}
