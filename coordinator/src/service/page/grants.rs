//! Secrets by which browsers are known, and the callers that they were given to. Only digests of them are kept. Decides only: time is an argument.

use super::super::caller::Caller;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Bounds of secrets of one kind.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    pub(super) of_one_user: usize,
    pub(super) in_all: usize,
    pub(super) lifetime: Duration,
}

/// The meaning of a secret.
#[derive(Clone, Debug)]
pub(super) struct Grant {
    pub(super) caller: Caller,
    pub(super) until: Instant,
    number: u64,
}

/// The secrets of one kind that are valid.
#[derive(Debug)]
pub(super) struct Grants {
    bounds: Bounds,
    given: u64,
    valid: BTreeMap<[u8; 32], Grant>,
}

impl Grants {
    pub(super) fn new(bounds: Bounds) -> Self {
        Self { bounds, given: 0, valid: BTreeMap::new() }
    }

    /// Makes a secret valid for a caller. The user's oldest one ends if there are as many as one user may have, or else the oldest of all.
    pub(super) fn give(&mut self, secret: &str, caller: Caller, now: Instant) {
        self.valid.retain(|_, grant| grant.until > now);
        let user = caller.called();
        let is_own = |grant: &Grant| grant.caller.called() == user;
        if self.valid.values().filter(|grant| is_own(grant)).count() >= self.bounds.of_one_user {
            self.end_oldest(is_own);
        } else if self.valid.len() >= self.bounds.in_all {
            self.end_oldest(|_| true);
        }
        self.given += 1;
        let grant = Grant { caller, until: now + self.bounds.lifetime, number: self.given };
        self.valid.insert(digest(secret), grant);
    }

    /// Returns the meaning of a secret while it is valid.
    pub(super) fn of(&self, secret: &str, now: Instant) -> Option<Grant> {
        self.valid.get(&digest(secret)).filter(|grant| grant.until > now).cloned()
    }

    /// Returns the meaning of a secret, which is valid no longer.
    pub(super) fn take(&mut self, secret: &str, now: Instant) -> Option<Grant> {
        self.valid.remove(&digest(secret)).filter(|grant| grant.until > now)
    }

    fn end_oldest(&mut self, among: impl Fn(&Grant) -> bool) {
        let oldest = self.valid.iter().filter(|(_, grant)| among(grant)).min_by_key(|(_, grant)| grant.number);
        if let Some(digest) = oldest.map(|(digest, _)| *digest) {
            self.valid.remove(&digest);
        }
    }
}

/// A search by digests takes no longer for a secret that is nearly right.
fn digest(secret: &str) -> [u8; 32] {
    Sha256::digest(secret.as_bytes()).into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use accord_trust::Role;

    const BOUNDS: Bounds = Bounds { of_one_user: 2, in_all: 3, lifetime: Duration::from_secs(60) };

    fn caller(user: &str) -> Caller {
        Caller { roles: vec![Role::Tenant(user.to_owned())], address: None, refused: None }
    }

    #[test]
    fn a_secret_is_taken_once_and_expires() {
        let (mut grants, now) = (Grants::new(BOUNDS), Instant::now());
        grants.give("a", caller("eva"), now);
        assert_eq!(grants.of("a", now).unwrap().caller.called(), "tenant eva");
        assert!(grants.of("b", now).is_none() && grants.take("", now).is_none());
        assert!(grants.take("a", now).is_some() && grants.take("a", now).is_none());
        grants.give("c", caller("eva"), now);
        let last = now + BOUNDS.lifetime - Duration::from_nanos(1);
        assert!(grants.of("c", last).is_some() && grants.of("c", now + BOUNDS.lifetime).is_none());
        assert!(grants.take("c", now + BOUNDS.lifetime).is_none());
    }

    #[test]
    fn a_user_has_few_secrets_and_ends_only_own_ones_with_more() {
        let (mut grants, now) = (Grants::new(BOUNDS), Instant::now());
        for secret in ["a", "b", "c"] {
            grants.give(secret, caller("eva"), now);
        }
        let valid = |grants: &Grants| ["a", "b", "c", "d", "e", "f"].map(|secret| grants.of(secret, now).is_some());
        assert_eq!(valid(&grants), [false, true, true, false, false, false]);
        grants.give("d", caller("tom"), now);
        grants.give("e", caller("ada"), now);
        assert_eq!(valid(&grants), [false, false, true, true, true, false], "the oldest of all has ended");
        grants.give("f", caller("ada"), now + BOUNDS.lifetime);
        assert_eq!(grants.valid.len(), 1, "expired ones are forgotten");
    }
}
