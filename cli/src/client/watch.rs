//! Calls of Cluster.Watch.

use super::{ANSWER_LIMIT, Coordinator};
use crate::failure::{Failure, Result};
use accord_proto::bounds::WATCH_ROWS_MAX;
use accord_proto::v1::cluster_client::ClusterClient;
use accord_proto::v1::{ClusterSummary, WatchReply, WatchRequest, WatchRow};
use accord_types::threads;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;
use tokio::sync::{mpsc, watch};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Status, Streaming};

/// Most received replies that the command has not taken.
const REPLIES_WAITING_MAX: usize = 16;
/// Most unsent requests.
const REQUESTS_WAITING_MAX: usize = 1;
/// Pause before the next call after one that has ended.
const AGAIN_AFTER: Duration = Duration::from_secs(1);
/// Silence of the coordinator's host after which it is probed, and the time limit of its answer.
const PROBED_AFTER: Duration = Duration::from_secs(3);

/// A complete table.
#[derive(Debug, Default)]
pub(crate) struct WholeTable {
    pub(crate) summary: ClusterSummary,
    pub(crate) unix_ms: u64,
    pub(crate) rows: Vec<WatchRow>,
}

/// A call of Watch on a thread of its own, repeated when it ends.
pub(crate) struct Watching {
    wanted: watch::Sender<WatchRequest>,
    replies: Receiver<Result<WatchReply>>,
}

impl Watching {
    /// Requests other rows instead.
    pub(crate) fn ask(&self, request: WatchRequest) {
        self.wanted.send_replace(request);
    }

    /// Returns the received replies and errors.
    pub(crate) fn received(&self) -> impl Iterator<Item = Result<WatchReply>> + '_ {
        self.replies.try_iter()
    }
}

impl Coordinator {
    /// Returns all rows of the requested table.
    pub(crate) fn table(&mut self, request: &WatchRequest) -> Result<WholeTable> {
        let pages = async {
            let (requests, stream) = mpsc::channel(REQUESTS_WAITING_MAX);
            let page = |from| WatchRequest { from, rows: WATCH_ROWS_MAX as u32, ..request.clone() };
            let _ = requests.send(page(0)).await;
            let mut replies = self.cluster.watch(ReceiverStream::new(stream)).await?.into_inner();
            let mut all = WholeTable::default();
            loop {
                let reply = next(&mut replies).await?;
                (all.summary, all.unix_ms) = (reply.summary.unwrap_or(all.summary), reply.unix_ms);
                let seen = reply.from + reply.rows;
                // The last page may overlap the previous one, if the table has become shorter.
                let known = all.rows.len().saturating_sub(reply.from as usize);
                all.rows.extend(reply.changed.into_iter().skip(known));
                if reply.rows == 0 || seen >= reply.total {
                    return Ok(all);
                }
                let _ = requests.send(page(seen)).await;
            }
        };
        let answer = self.runtime.block_on(async { tokio::time::timeout(ANSWER_LIMIT, pages).await });
        let answer = answer.unwrap_or_else(|_| Err(Status::deadline_exceeded("no answer in time")));
        answer.map_err(|status| self.explain(&status))
    }

    /// Watches the requested rows.
    pub(crate) fn watch(self, request: WatchRequest) -> Result<Watching> {
        let (wanted, asked) = watch::channel(request);
        let (sender, replies) = sync_channel(REPLIES_WAITING_MAX);
        // The thread ends with the process.
        threads::spawn("accord-watch", move || self.keep_watching(asked, &sender))
            .map_err(|error| Failure::new(format!("cannot start a thread: {error}")))?;
        Ok(Watching { wanted, replies })
    }

    fn keep_watching(self, mut asked: watch::Receiver<WatchRequest>, replies: &SyncSender<Result<WatchReply>>) {
        self.runtime.block_on(async {
            loop {
                let ended = match self.watch_once(&mut asked, replies).await {
                    Ok(()) => return,
                    Err(status) => self.explain(&status),
                };
                if replies.send(Err(ended)).is_err() {
                    return;
                }
                tokio::time::sleep(AGAIN_AFTER).await;
            }
        });
    }

    /// Makes one call. Returns once the command needs no more replies.
    async fn watch_once(
        &self,
        asked: &mut watch::Receiver<WatchRequest>,
        replies: &SyncSender<Result<WatchReply>>,
    ) -> Result<(), Status> {
        // Probes detect a vanished host, which does not end the call.
        let channel = self.reach.connect(|endpoint| {
            endpoint
                .http2_keep_alive_interval(PROBED_AFTER)
                .keep_alive_timeout(PROBED_AFTER)
                .keep_alive_while_idle(true)
        });
        let mut client = ClusterClient::new(channel.await?);
        let (requests, stream) = mpsc::channel(REQUESTS_WAITING_MAX);
        let first = asked.borrow_and_update().clone();
        let _ = requests.send(first).await;
        let mut received = client.watch(ReceiverStream::new(stream)).await?.into_inner();
        loop {
            tokio::select! {
                reply = next(&mut received) => {
                    if replies.send(Ok(reply?)).is_err() {
                        return Ok(());
                    }
                }
                changed = asked.changed() => {
                    if changed.is_err() {
                        return Ok(());
                    }
                    let request = asked.borrow_and_update().clone();
                    let _ = requests.send(request).await;
                }
            }
        }
    }
}

async fn next(replies: &mut Streaming<WatchReply>) -> Result<WatchReply, Status> {
    replies.message().await?.ok_or_else(|| Status::unavailable("the coordinator has ended the call"))
}
