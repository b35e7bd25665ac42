//! Calls of Watch: a reply to each request, and changes at most once a second.

use super::board::{Boards, Watcher};
use super::driver::Driver;
use accord_proto::convert::{Malformed, check_version};
use accord_proto::v1;
use std::time::Duration;
use tokio::sync::mpsc::Sender;
use tokio::time::{MissedTickBehavior, interval};
use tonic::{Status, Streaming};

/// Replies on their way to one watcher. The changes for a slow watcher are found when there is room for them.
pub(super) const REPLIES_WAITING_MAX: usize = 1;
/// Time between two replies with changes to one watcher.
const CHANGES_EVERY: Duration = Duration::from_secs(1);
/// Requests of a watcher that are answered at once, between two replies with changes.
const REQUESTS_AT_ONCE: u32 = 64;
/// How long a watcher's first request may take.
const FIRST_WITHIN: Duration = Duration::from_secs(5);

/// Returns the first request.
///
/// # Errors
/// Returns an error if it does not arrive in time, or makes no sense.
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
/// Returns an error if a request makes no sense, or the system has no more threads.
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
        let Ok(room) = replies.reserve().await else { return Ok(()) };
        match watcher.reply(driver, &board) {
            Some(reply) => room.send(Ok(reply)),
            None => drop(room),
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
