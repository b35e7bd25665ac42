//! The coordinator's state in etcd: a key for each record, written by the coordinator that leads and by no other.
//!
//! Each transaction compares two revisions: that of the leader's key, so that a former leader changes nothing, and that of the last transaction
//! before it, so that a request whose answer was lost is not done after a later one. Changes that are too large for one transaction are staged:
//! their operations are written below [`STAGED`], count once `meta` says so, and are carried out then, by the next leader if need be.

use super::clock::LastCommit;
use super::error::StoreError;
use super::etcd_changes::{PARTS, RECORDS, TRANSACTION_BYTES_MAX, decode, encode, grouped, operations, record_of};
use super::uptime::Uptime;
use super::{Changes, Opened, Store};
use crate::etcd::wire::{Compare, RangeRequest, RequestOp, TxnRequest};
use crate::etcd::{EtcdClient, EtcdError, EtcdLocation, EtcdTls, end_of};
use accord_cluster::{Millis, Records};
use accord_types::scarce;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::time::Duration;
use tokio::runtime::Runtime;

/// The format of the keys and of the records.
const FORMAT: u64 = 1;
const META: &str = "meta";
/// Below this name are pieces of staged changes.
const STAGED: &str = "staged/";

/// The time of one request at one member.
const REQUEST_TIME: Duration = Duration::from_secs(2);
/// Keys of one page when all are read.
const PAGE_KEYS: i64 = 1_000;
/// Attempts of one transaction while answers are lost.
const ATTEMPTS: u32 = 3;

/// The right to write: this coordinator is the leader.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Leadership {
    /// The revision at which the leader's key was created.
    pub revision: i64,
    /// The cluster's name in this coordinator's certificate; empty without one.
    pub cluster: String,
}

/// What is known besides the records, in the key `meta`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
struct Meta {
    format: u64,
    epoch: u64,
    now: u64,
    unix_ms: u64,
    boot: u64,
    uptime_ms: u64,
    /// Pieces of staged changes that count.
    staged: usize,
    /// The cluster's name in the coordinators' certificates; empty without one.
    cluster: String,
}

/// Changes that were too large for one transaction, and are not carried out yet.
struct Staged {
    operations: Vec<RequestOp>,
    pieces: usize,
}

/// The open state.
pub struct EtcdStore {
    /// `None` while the store is dropped.
    runtime: Option<Runtime>,
    client: EtcdClient,
    leadership: Leadership,
    epoch: u64,
    /// The revision of the last transaction; 0: there was none.
    last_revision: i64,
    /// Keys of values with several parts.
    long: BTreeSet<String>,
    staged: Option<Staged>,
}

impl EtcdStore {
    /// Opens the state that the leader has, or begins one. Its epoch goes up by one. Blocks, and is called outside of a runtime.
    ///
    /// # Errors
    /// Returns why the state can't be used.
    pub fn open(
        location: &EtcdLocation,
        tls: Option<EtcdTls>,
        leadership: Leadership,
        unix_ms: u64,
    ) -> Result<Opened<Self>, StoreError> {
        let runtime = accord_proto::runtime::one_threaded().map_err(|error| {
            let remedy = scarce::remedy(&error).unwrap_or("look at the machine");
            StoreError::of_etcd(location, format!("cannot start: {error}"), remedy)
        })?;
        let client = EtcdClient::new(location.clone(), tls);
        let (epoch, last_revision, long, staged) = (0, 0, BTreeSet::new(), None);
        let mut store = Self { runtime: Some(runtime), client, leadership, epoch, last_revision, long, staged };
        let known = store.meta()?;
        let last = match &known {
            Some(meta) => {
                store.check(meta)?;
                if meta.staged > 0 {
                    store.carry_out_staged_of_before(meta)?;
                }
                let uptime = Uptime { boot: meta.boot, ms: meta.uptime_ms };
                LastCommit { epoch: meta.epoch, now: meta.now, unix_ms: meta.unix_ms, uptime }
            }
            None if store.read_all(RECORDS)?.is_empty() => {
                LastCommit { epoch: 0, now: 0, unix_ms: 0, uptime: Uptime { boot: 0, ms: 0 } }
            }
            None => {
                let cause = "its keys are not the state of a coordinator".to_owned();
                return Err(store.wrong(cause, "name another prefix by --state"));
            }
        };
        let restart = last.restart(unix_ms, Uptime::now());
        let records = store.records()?;
        store.epoch = restart.epoch;
        store.write(Vec::new(), &store.meta_at(restart.now, unix_ms, 0))?;
        Ok(Opened { store, records, restart })
    }

    /// Whether a state can be of this coordinator.
    fn check(&self, meta: &Meta) -> Result<(), StoreError> {
        if meta.format > FORMAT {
            let cause =
                format!("a newer release has written it (format {}, and this one knows up to {FORMAT})", meta.format);
            return Err(self.wrong(cause, "start that release, or restore a backup"));
        }
        let (own, known) = (&self.leadership.cluster, &meta.cluster);
        if !own.is_empty() && !known.is_empty() && own != known {
            let cause = format!("it is of the cluster {known:?}, and this coordinator's certificate of {own:?}");
            return Err(self.wrong(cause, "name another prefix by --state, or correct --tls"));
        }
        Ok(())
    }

    /// Reads `meta`, and notes its revision.
    fn meta(&mut self) -> Result<Option<Meta>, StoreError> {
        let request = RangeRequest { key: self.client.location().key(META), ..RangeRequest::default() };
        let answer = self.range(request)?;
        let Some(found) = answer.kvs.first() else { return Ok(None) };
        self.last_revision = found.mod_revision;
        let meta = serde_json::from_slice(&found.value);
        meta.map(Some).map_err(|error| self.damaged(format!("the value of meta can't be read: {error}")))
    }

    /// Carries out what an earlier leader has staged and not carried out.
    fn carry_out_staged_of_before(&mut self, meta: &Meta) -> Result<(), StoreError> {
        let pieces = self.read_all(STAGED)?;
        let bytes: Vec<u8> = pieces.into_values().take(meta.staged).flatten().collect();
        let operations = decode(&bytes).map_err(|why| self.damaged(why))?;
        self.epoch = meta.epoch;
        self.staged = Some(Staged { operations, pieces: meta.staged });
        self.finish_staged(Millis(meta.now), meta.unix_ms)
    }

    /// Reads all records.
    fn records(&mut self) -> Result<Records, StoreError> {
        let mut records = self.read_all(RECORDS)?;
        for (name, mut part) in self.read_all(PARTS)? {
            let record = record_of(&name).and_then(|record| Some((record.to_owned(), records.get_mut(record)?)));
            let Some((record, value)) = record else {
                return Err(self.damaged(format!("a part of a value has no first part: {name}")));
            };
            value.append(&mut part);
            self.long.insert(record);
        }
        Ok(records)
    }

    /// Reads the keys below a name, in their order.
    fn read_all(&mut self, name: &str) -> Result<Records, StoreError> {
        let first = self.client.location().key(name);
        let (mut found, mut revision, mut key) = (Records::new(), 0, first.clone());
        loop {
            let range_end = end_of(&first);
            let page = self.range(RangeRequest { key, range_end, limit: PAGE_KEYS, revision })?;
            revision =
                page.header.as_ref().map_or(revision, |header| if revision == 0 { header.revision } else { revision });
            key = page.kvs.last().map(|last| [&*last.key, &[0]].concat()).unwrap_or_default();
            for entry in page.kvs {
                let name = entry.key.get(first.len()..).and_then(|name| std::str::from_utf8(name).ok());
                let name = name.ok_or_else(|| self.damaged("a key is no text".to_owned()))?;
                found.insert(name.to_owned(), entry.value);
            }
            if !page.more || key.is_empty() {
                return Ok(found);
            }
        }
    }

    fn range(&mut self, request: RangeRequest) -> Result<crate::etcd::wire::RangeResponse, StoreError> {
        let Some(runtime) = &self.runtime else { return Err(self.closed()) };
        let answer = runtime.block_on(self.client.range(request, REQUEST_TIME));
        answer.map_err(|error| self.failed(&error))
    }

    /// Writes operations and `meta` in one transaction, if this coordinator leads.
    fn write(&mut self, mut operations: Vec<RequestOp>, meta: &Meta) -> Result<(), StoreError> {
        let location = self.client.location();
        let (leader, meta_key) = (location.leader_key(), location.key(META));
        // Plain data always has a form in JSON.
        operations.push(RequestOp::put(meta_key.clone(), serde_json::to_vec(meta).unwrap_or_default()));
        for _ in 0..ATTEMPTS {
            let request = TxnRequest {
                compare: vec![
                    Compare::created(leader.clone(), self.leadership.revision),
                    Compare::modified(meta_key.clone(), self.last_revision),
                ],
                success: operations.clone(),
                failure: vec![RequestOp::get(leader.clone()), RequestOp::get(meta_key.clone())],
            };
            let Some(runtime) = &self.runtime else { return Err(self.closed()) };
            let answer = runtime.block_on(self.client.transaction(request, REQUEST_TIME));
            let answer = answer.map_err(|error| self.failed(&error))?;
            if answer.succeeded {
                self.last_revision = answer.revision();
                return Ok(());
            }
            if answer.found(0).is_none_or(|leader| leader.create_revision != self.leadership.revision) {
                return Err(StoreError::superseded(self.client.location()));
            }
            // An earlier transaction was done whose answer was lost.
            self.last_revision = answer.found(1).map_or(0, |meta| meta.mod_revision);
        }
        Err(self.wrong("other writers change it all the time".to_owned(), "let only coordinators have its prefix"))
    }

    fn meta_at(&self, now: Millis, unix_ms: u64, staged: usize) -> Meta {
        let Uptime { boot, ms: uptime_ms } = Uptime::now();
        let cluster = self.leadership.cluster.clone();
        Meta { format: FORMAT, epoch: self.epoch, now: now.0, unix_ms, boot, uptime_ms, staged, cluster }
    }

    /// Writes the operations of changes in pieces. They count with the first transaction of [`Self::finish_staged`].
    fn stage(&mut self, operations: Vec<RequestOp>, now: Millis, unix_ms: u64) -> Result<(), StoreError> {
        let bytes = encode(&operations);
        let mut pieces = 0;
        for piece in bytes.chunks(TRANSACTION_BYTES_MAX) {
            let key = self.client.location().key(&format!("{STAGED}{pieces:06}"));
            self.write(vec![RequestOp::put(key, piece.to_vec())], &self.meta_at(now, unix_ms, 0))?;
            pieces += 1;
        }
        self.staged = Some(Staged { operations, pieces });
        Ok(())
    }

    /// Carries out staged changes, if there are any. After an error it has to be called again before other changes.
    fn finish_staged(&mut self, now: Millis, unix_ms: u64) -> Result<(), StoreError> {
        let Some(Staged { operations, pieces }) = &self.staged else { return Ok(()) };
        let (groups, meta) = (grouped(operations.clone()), self.meta_at(now, unix_ms, *pieces));
        self.write(Vec::new(), &meta)?;
        for group in groups {
            self.write(group, &meta)?;
        }
        let first = self.client.location().key(STAGED);
        let all = RequestOp::delete(first.clone(), end_of(&first));
        self.write(vec![all], &Meta { staged: 0, ..meta })?;
        self.staged = None;
        Ok(())
    }

    /// Stages changes, and ends as if the coordinator did, before or after they count.
    #[cfg(test)]
    pub(super) fn stage_only(&mut self, changes: &Changes, count: bool) {
        let operations = operations(self.client.location(), changes, &mut self.long);
        self.stage(operations, Millis(9), 9).unwrap();
        let pieces = self.staged.as_ref().map_or(0, |staged| staged.pieces);
        if count {
            self.write(Vec::new(), &self.meta_at(Millis(9), 9, pieces)).unwrap();
        }
    }

    fn failed(&self, error: &EtcdError) -> StoreError {
        StoreError::of_request(self.client.location(), error)
    }

    fn wrong(&self, cause: String, remedy: &str) -> StoreError {
        StoreError::of_etcd(self.client.location(), cause, remedy)
    }

    fn closed(&self) -> StoreError {
        self.wrong("it is closed".to_owned(), "start this coordinator again")
    }
}

impl Store for EtcdStore {
    fn commit(&mut self, changes: &Changes, now: Millis, unix_ms: u64) -> Result<(), StoreError> {
        self.finish_staged(now, unix_ms)?;
        let mut long = self.long.clone();
        let operations = operations(self.client.location(), changes, &mut long);
        let mut groups = grouped(operations.clone());
        if groups.len() <= 1 {
            self.write(groups.pop().unwrap_or_default(), &self.meta_at(now, unix_ms, 0))?;
        } else {
            self.stage(operations, now, unix_ms)?;
            self.finish_staged(now, unix_ms)?;
        }
        self.long = long;
        Ok(())
    }

    fn damaged(&self, why: String) -> StoreError {
        self.wrong(format!("it is damaged: {why}"), "restore a backup of etcd, or name another prefix to begin anew")
    }
}

impl Drop for EtcdStore {
    fn drop(&mut self) {
        // Dropping a runtime blocks, which another runtime forbids to its thread.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}
