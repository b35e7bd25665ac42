//! Calls of Watch: each request gets a reply, followed by changes at most once a second.

use super::board::{Boards, Watcher};
use super::driver::Driver;
use accord_proto::convert::{Malformed, check_version};
use accord_proto::v1;
use std::time::Duration;
use tokio::sync::mpsc::Sender;
use tokio::time::{MissedTickBehavior, interval};
use tonic::{Status, Streaming};

/// Most replies in flight to one watcher. Changes for a slow watcher are computed once there is room.
pub(super) const REPLIES_WAITING_MAX: usize = 1;
/// Interval of replies with changes to one watcher.
const CHANGES_EVERY: Duration = Duration::from_secs(1);
/// Most requests of a watcher that are answered between two replies with changes.
const REQUESTS_AT_ONCE: u32 = 64;
/// Timeout for a watcher's first request.
const FIRST_WITHIN: Duration = Duration::from_secs(5);

/// Returns the first request.
///
/// # Errors
/// Returns an error if the request does not arrive in time or is malformed.
pub(super) async fn first(requests: &mut Streaming<v1::WatchRequest>) -> Result<v1::WatchRequest, Status> {
    let first = tokio::time::timeout(FIRST_WITHIN, requests.message());
    let first = first.await.map_err(|_| Status::deadline_exceeded("no request to watch came"))??;
    checked(first.ok_or(Malformed("a call of Watch without a request"))?)
}

fn checked(request: v1::WatchRequest) -> Result<v1::WatchRequest, Status> {
    check_version(request.version)?;
    match request.table() {
        v1::WatchTable::Unspecified => Err(Malformed("a request to watch no table").into()),
        _ => Ok(request),
    }
}

/// Serves a watcher until it sends no more requests, or reads no more replies.
///
/// # Errors
/// Returns an error if a request is malformed or the system can't start a thread.
pub(super) async fn serve(
    driver: &Driver,
    boards: &std::sync::Arc<Boards>,
    mut watcher: Watcher,
    requests: &mut Streaming<v1::WatchRequest>,
    replies: &Sender<Result<v1::WatchReply, Status>>,
) -> Result<(), Status> {
    let mut changes = interval(CHANGES_EVERY);
    changes.set_missed_tick_behavior(MissedTickBehavior::Delay);
    changes.tick().await;
    let mut board = boards.fresh().await?;
    let mut answered = 0;
    loop {
        let Ok(space) = replies.reserve().await else { return Ok(()) };
        match watcher.reply(driver, &board) {
            Some(reply) => space.send(Ok(reply)),
            None => drop(space),
        }
        tokio::select! {
            () = replies.closed() => return Ok(()),
            _ = changes.tick() => {
                (board, answered) = (boards.fresh().await?, 0);
            }
            request = requests.message(), if answered < REQUESTS_AT_ONCE => {
                let Some(request) = request? else { return Ok(()) };
                watcher.ask(checked(request)?);
                answered += 1;
            }
        }
    }
}
