//! Calls of etcd, at whichever member answers.

use super::connector::connect;
use super::error::EtcdError;
use super::location::{EtcdLocation, EtcdTls};
use super::wire::{
    LeaseGrantRequest, LeaseGrantResponse, LeaseKeepAliveRequest, LeaseKeepAliveResponse, LeaseRevokeRequest,
    RangeRequest, RangeResponse, TxnRequest, TxnResponse,
};
use prost::Message;
use std::time::Duration;
use tokio::time::timeout;
use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::Channel;
use tonic::{Request, Status};
use tonic_prost::ProstCodec;

/// Bytes of the largest answer: a page of the largest values that etcd takes.
const ANSWER_MAX: usize = 2 << 30;

/// A client of one etcd cluster, with a connection to one member at a time.
pub(crate) struct EtcdClient {
    location: EtcdLocation,
    tls: Option<EtcdTls>,
    /// The member that has answered last, by its place in the location.
    member: usize,
    channel: Option<Channel>,
}

impl EtcdClient {
    pub(crate) fn new(location: EtcdLocation, tls: Option<EtcdTls>) -> Self {
        Self { location, tls, member: 0, channel: None }
    }

    pub(crate) fn location(&self) -> &EtcdLocation {
        &self.location
    }

    /// Reads keys. Each member may take `time`.
    ///
    /// # Errors
    /// Returns the last member's error.
    pub(crate) async fn range(&mut self, request: RangeRequest, time: Duration) -> Result<RangeResponse, EtcdError> {
        self.call("/etcdserverpb.KV/Range", request, time).await
    }

    /// Does all of a transaction or none of it. After an error it may have been done, or be done later.
    ///
    /// # Errors
    /// Returns the last member's error.
    pub(crate) async fn transaction(&mut self, request: TxnRequest, time: Duration) -> Result<TxnResponse, EtcdError> {
        self.call("/etcdserverpb.KV/Txn", request, time).await
    }

    /// Grants a lease. Returns its number and its time, in seconds.
    ///
    /// # Errors
    /// Returns the last member's error.
    pub(crate) async fn grant(&mut self, seconds: i64, time: Duration) -> Result<(i64, i64), EtcdError> {
        let request = LeaseGrantRequest { ttl: seconds };
        let granted: LeaseGrantResponse = self.call("/etcdserverpb.Lease/LeaseGrant", request, time).await?;
        Ok((granted.id, granted.ttl))
    }

    /// Renews a lease. Returns its time in seconds, 0 if it has expired.
    ///
    /// # Errors
    /// Returns the last member's error.
    pub(crate) async fn keep(&mut self, lease: i64, time: Duration) -> Result<i64, EtcdError> {
        let request = LeaseKeepAliveRequest { id: lease };
        let kept: LeaseKeepAliveResponse = self.call("/etcdserverpb.Lease/LeaseKeepAlive", request, time).await?;
        Ok(kept.ttl.max(0))
    }

    /// Ends a lease, and deletes its keys.
    ///
    /// # Errors
    /// Returns the last member's error.
    pub(crate) async fn revoke(&mut self, lease: i64, time: Duration) -> Result<(), EtcdError> {
        let request = LeaseRevokeRequest { id: lease };
        self.call::<_, super::wire::Done>("/etcdserverpb.Lease/LeaseRevoke", request, time).await.map(drop)
    }

    async fn call<Q, A>(&mut self, path: &'static str, request: Q, time: Duration) -> Result<A, EtcdError>
    where
        Q: Message + Clone + 'static,
        A: Message + Default + 'static,
    {
        let members = self.location.members.len();
        let mut tries = members;
        loop {
            tries = tries.saturating_sub(1);
            let answered = timeout(time, self.attempt(path, request.clone())).await;
            let name = self.location.members.get(self.member).map_or("", String::as_str);
            let error = match answered {
                Ok(Ok(answer)) => return Ok(answer),
                Ok(Err(error)) => error,
                Err(_) => EtcdError::silent(name),
            };
            if !error.is_of_member() {
                return Err(error);
            }
            self.channel = None;
            self.member = (self.member + 1) % members.max(1);
            if tries == 0 {
                return Err(error);
            }
        }
    }

    async fn attempt<Q, A>(&mut self, path: &'static str, request: Q) -> Result<A, EtcdError>
    where
        Q: Message + 'static,
        A: Message + Default + 'static,
    {
        let channel = match self.channel.take() {
            Some(channel) => channel,
            None => {
                let member = self.location.members.get(self.member).map_or("", String::as_str);
                connect(member, self.tls.as_ref()).await?
            }
        };
        let mut grpc = Grpc::new(channel.clone()).max_decoding_message_size(ANSWER_MAX);
        let failed = |status: Status| EtcdError::of(&status);
        grpc.ready().await.map_err(|error| failed(Status::unavailable(error.to_string())))?;
        let requests = tokio_stream::once(request);
        let codec = ProstCodec::<Q, A>::default();
        // A call with one request and one answer has the same form on the wire as a stream of one.
        let answers = grpc.streaming(Request::new(requests), PathAndQuery::from_static(path), codec).await;
        let mut answers = answers.map_err(failed)?.into_inner();
        let answer = answers.message().await.map_err(failed)?;
        let answer = answer.ok_or_else(|| failed(Status::unavailable("it closed the call")))?;
        self.channel = Some(channel);
        Ok(answer)
    }
}
