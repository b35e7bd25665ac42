//! Requests that wait for agents, in the order of their arrival.

use super::input::ClientId;
use super::job::DeferredRequest;
use super::steps::counted;
use std::collections::{BTreeMap, BTreeSet};

/// Requests that wait for agents.
#[derive(Debug, Default)]
pub(super) struct DeferredRequests {
    requests: BTreeMap<u64, DeferredRequest>,
    by_client: BTreeSet<(ClientId, u64)>,
    last: u64,
}

impl DeferredRequests {
    pub(super) fn push(&mut self, held: DeferredRequest) {
        self.last += 1;
        self.by_client.insert((held.opener.client, self.last));
        self.requests.insert(self.last, held);
    }

    /// Returns the number of requests.
    pub(super) fn len(&self) -> usize {
        self.requests.len()
    }

    /// Drops the requests of a connection.
    pub(super) fn remove(&mut self, client: ClientId) {
        let of_client = self.by_client.range((client, 0)..=(client, u64::MAX));
        for (client, number) in of_client.copied().collect::<Vec<_>>() {
            self.by_client.remove(&(client, number));
            self.requests.remove(&number);
        }
    }

    /// Removes and returns all requests.
    pub(super) fn take(&mut self) -> Vec<DeferredRequest> {
        self.by_client.clear();
        counted(std::mem::take(&mut self.requests).into_values()).collect()
    }
}
