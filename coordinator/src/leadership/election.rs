//! The thread that stands for leader in etcd. It is a thread of its own, so that a long decision of the core does not cost the lease.

use super::candidate::{Action, Answer, Candidate, LEASE_SECONDS, LeadershipStatus, Owner};
use crate::etcd::wire::KeyValue;
use crate::etcd::wire::{Compare, PutRequest, RangeRequest, Request, RequestOp, TxnRequest};
use crate::etcd::{EtcdClient, EtcdError, EtcdLocation, EtcdTls};
use accord_cluster::Millis;
use accord_types::threads;
use std::time::{Duration, Instant};
use tokio::sync::{oneshot, watch};

/// The time of one request at one member.
const REQUEST_TIME: Duration = Duration::from_millis(700);
/// The time for giving the lease back at the end.
const RESIGN_TIME: Duration = Duration::from_secs(1);

/// A coordinator's part in the election.
pub struct Election {
    outcome: watch::Receiver<Outcome>,
    stop: oneshot::Sender<()>,
    ended: oneshot::Receiver<()>,
}

/// The outcome of an election so far.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// The candidate's standing, and the error of etcd if it did not answer last.
    Stands(LeadershipStatus, Option<String>),
    /// This coordinator can't take part, for this reason.
    Refused(String),
}

impl Election {
    /// Begins to stand for leader as the coordinator at `address`.
    ///
    /// # Errors
    /// Returns the system's error if it has no thread.
    pub fn begin(location: EtcdLocation, tls: Option<EtcdTls>, address: String) -> std::io::Result<Self> {
        let runtime = accord_proto::runtime::one_threaded()?;
        let (reported, outcome) = watch::channel(Outcome::Stands(LeadershipStatus::Follows(None), None));
        let (stop, stopped) = oneshot::channel();
        let (ends, ended) = oneshot::channel();
        let client = EtcdClient::new(location, tls);
        threads::spawn("accord-lease", move || {
            let (began, candidate) = (Instant::now(), Candidate::default());
            let mut stander = ElectionThread { client, address, candidate, began, reported, failure: None };
            runtime.block_on(async {
                let lost = tokio::select! {
                    () = stander.stand() => true,
                    _ = stopped => false,
                };
                if !lost {
                    stander.resign().await;
                }
            });
            // This fails if the election was dropped.
            let _ = ends.send(());
        })?;
        Ok(Self { outcome, stop, ended })
    }

    /// Returns the outcome, as it changes.
    pub fn outcome(&self) -> watch::Receiver<Outcome> {
        self.outcome.clone()
    }

    /// Waits until this coordinator leads. Returns the revision of the leader's key.
    ///
    /// # Errors
    /// Returns why it can't lead.
    pub async fn elected(&self) -> Result<i64, String> {
        let mut outcome = self.outcome();
        loop {
            let now = outcome.borrow_and_update().clone();
            match now {
                Outcome::Stands(LeadershipStatus::Leads { revision }, _) => return Ok(revision),
                Outcome::Stands(LeadershipStatus::Lost, _) => return Err("the leadership is lost".to_owned()),
                Outcome::Refused(why) => return Err(why),
                Outcome::Stands(LeadershipStatus::Follows(_), _) => {}
            }
            outcome.changed().await.map_err(|_| "the thread accord-lease has ended".to_owned())?;
        }
    }

    /// Waits until this coordinator, which leads, does no longer. Returns why.
    pub async fn lost(&self) -> String {
        let mut outcome = self.outcome();
        let leads = |outcome: &Outcome| matches!(outcome, Outcome::Stands(LeadershipStatus::Leads { .. }, _));
        let why = match outcome.wait_for(|outcome| !leads(outcome)).await.as_deref() {
            Ok(Outcome::Stands(_, Some(why))) => format!(": {why}"),
            _ => String::new(),
        };
        format!("this coordinator leads no longer: its lease of {LEASE_SECONDS} s was not renewed in time{why}")
    }

    /// Gives the lease back, so that another coordinator leads at once.
    pub async fn resign(self) {
        let _ = self.stop.send(());
        let _ = self.ended.await;
    }
}

/// The thread's side.
struct ElectionThread {
    client: EtcdClient,
    address: String,
    candidate: Candidate,
    began: Instant,
    reported: watch::Sender<Outcome>,
    /// The error of the last request.
    failure: Option<EtcdError>,
}

impl ElectionThread {
    fn now(&self) -> Millis {
        Millis(u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX))
    }

    /// Does what the candidate decides, until its leadership is lost or only another setting helps.
    async fn stand(&mut self) {
        loop {
            let asked = self.now();
            let action = self.candidate.next(asked);
            self.notify(asked);
            let answer = match action {
                Action::Wait(until) => {
                    tokio::time::sleep(Duration::from_millis(until.since(asked))).await;
                    continue;
                }
                Action::End => return,
                Action::Look => self.read_leader().await,
                Action::Grant => self.grant().await,
                Action::Stand { lease, until } => self.within(until, asked, Call::Stand(lease)).await,
                Action::Renew { lease, until } => self.within(until, asked, Call::Renew(lease)).await,
            };
            let failure = answer.as_ref().err().cloned();
            if let Some(error) = &failure
                && error.is_final()
            {
                self.reported
                    .send_replace(Outcome::Refused(format!("{}: {error}", self.client.location().displayed())));
                return;
            }
            self.note(failure);
            let now = self.now();
            self.candidate.answered(asked, now, answer.unwrap_or(Answer::Failed));
        }
    }

    /// Reports an error once, and its end.
    fn note(&mut self, failure: Option<EtcdError>) {
        let place = self.client.location().displayed();
        match (&failure, &self.failure) {
            (Some(error), before) if before.as_ref() != Some(error) => tracing::error!("{place}: {error}"),
            (None, Some(_)) => tracing::warn!("{place}: etcd answers again"),
            _ => {}
        }
        self.failure = failure;
    }

    fn notify(&self, now: Millis) {
        let failure = self.failure.as_ref().map(ToString::to_string);
        let outcome = Outcome::Stands(self.candidate.leadership_status(now), failure);
        self.reported.send_if_modified(|known| {
            let is_new = *known != outcome;
            *known = outcome;
            is_new
        });
    }

    /// Makes a call of which the answer is of no use after `until`.
    async fn within(&mut self, until: Millis, now: Millis, call: Call) -> Result<Answer, EtcdError> {
        let left = Duration::from_millis(until.since(now));
        let before = self.failure.clone();
        let made = async {
            match call {
                Call::Stand(lease) => self.put(lease).await,
                Call::Renew(lease) => self.client.keep(lease, REQUEST_TIME).await.map(Answer::Renewed),
            }
        };
        match tokio::time::timeout(left, made).await {
            Ok(answer) => answer,
            Err(_) => before.map_or(Ok(Answer::Failed), Err),
        }
    }

    async fn read_leader(&mut self) -> Result<Answer, EtcdError> {
        let request = RangeRequest { key: self.client.location().leader_key(), ..RangeRequest::default() };
        let found = self.client.range(request, REQUEST_TIME).await?;
        Ok(Answer::Owner(found.kvs.first().map(owner)))
    }

    async fn grant(&mut self) -> Result<Answer, EtcdError> {
        let (lease, seconds) = self.client.grant(LEASE_SECONDS, REQUEST_TIME).await?;
        Ok(Answer::Granted { lease, seconds })
    }

    async fn put(&mut self, lease: i64) -> Result<Answer, EtcdError> {
        let key = self.client.location().leader_key();
        let put = PutRequest { key: key.clone(), value: self.address.clone().into_bytes(), lease };
        let request = TxnRequest {
            compare: vec![Compare::created(key.clone(), 0)],
            success: vec![RequestOp { request: Some(Request::Put(put)) }],
            failure: vec![RequestOp::get(key)],
        };
        let answer = self.client.transaction(request, REQUEST_TIME).await?;
        Ok(match answer.succeeded {
            true => Answer::Elected(answer.revision()),
            false => Answer::Owner(answer.found(0).map(owner)),
        })
    }

    /// Gives the lease back. Without an answer it ends by itself.
    async fn resign(&mut self) {
        if let Some(lease) = self.candidate.lease() {
            let _ = tokio::time::timeout(RESIGN_TIME, self.client.revoke(lease, RESIGN_TIME)).await;
        }
    }
}

/// A call for a lease that ends.
#[derive(Clone, Copy)]
enum Call {
    Stand(i64),
    Renew(i64),
}

fn owner(found: &KeyValue) -> Owner {
    let address = String::from_utf8_lossy(&found.value).into_owned();
    Owner { address, lease: found.lease, revision: found.create_revision }
}
