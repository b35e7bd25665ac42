//! Rows and their changes as server-sent events, at most one a second to a browser.

use super::super::board::Watcher;
use super::super::viewer::Viewer;
use super::answers::{self, Answer, refusal};
use super::query;
use super::site::{SignedIn, Site};
use accord_proto::{json, v1};
use hyper::StatusCode;
use hyper::body::{Bytes, Frame};
use serde_json::Value;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::mpsc::{Sender, channel};
use tokio::time::{MissedTickBehavior, interval};
use tokio_stream::wrappers::ReceiverStream;

/// Events on their way to one browser. The changes for a slow one are found when there is room for them.
const EVENTS_WAITING_MAX: usize = 1;
/// Time between two events with changes.
const CHANGES_EVERY: Duration = Duration::from_secs(1);
/// Time without changes after which an event without rows is sent: by it each side notices that the other has vanished.
const ALIVE_EVERY: Duration = Duration::from_secs(15);

/// Begins to send rows to a visitor, or the cluster in numbers to a stranger.
pub(super) fn begin(site: &Arc<Site>, signed_in: Option<SignedIn>, query: Option<&str>) -> Answer {
    let (watcher, slot, secret) = match signed_in {
        None => (Watcher::new(Viewer::unauthenticated(), v1::WatchRequest::default()), None, None),
        Some(SignedIn { caller, secret }) => {
            let request = match query::rows(query) {
                Ok(request) => request,
                Err(why) => return refusal(StatusCode::BAD_REQUEST, &why),
            };
            let slot = match site.tenants.watch(caller.user_name()) {
                Ok(slot) => slot,
                Err(error) => return refusal(StatusCode::TOO_MANY_REQUESTS, error.cause()),
            };
            (Watcher::new(Viewer::of(&caller), request), Some(slot), Some(secret))
        }
    };
    let (events, stream) = channel(EVENTS_WAITING_MAX);
    let site = site.clone();
    tokio::spawn(async move {
        serve(&site, watcher, secret, &events).await;
        // The browser sees the end when its slot is free.
        drop(slot);
    });
    answers::events(ReceiverStream::new(stream))
}

/// Sends events until the browser goes, or is known no longer.
async fn serve(
    site: &Site,
    mut watcher: Watcher,
    secret: Option<String>,
    events: &Sender<Result<Frame<Bytes>, Infallible>>,
) {
    let mut changes = interval(CHANGES_EVERY);
    changes.set_missed_tick_behavior(MissedTickBehavior::Delay);
    changes.tick().await;
    let mut sent = Instant::now();
    while secret.as_deref().is_none_or(|secret| site.knows(secret)) {
        let Ok(space) = events.reserve().await else { return };
        // Without a thread there is no board: the browser asks again.
        let Ok(board) = site.boards.fresh().await else { return };
        let text = match watcher.reply(&*site.driver, &board) {
            Some(reply) => Some(event(&reply)),
            None => (sent.elapsed() >= ALIVE_EVERY).then(|| "event: alive\ndata: 0\n\n".to_owned()),
        };
        match text {
            Some(text) => {
                sent = Instant::now();
                space.send(Ok(Frame::data(text.into())));
            }
            None => drop(space),
        }
        tokio::select! {
            () = events.closed() => return,
            _ = changes.tick() => {}
        }
    }
}

fn event(reply: &v1::WatchReply) -> String {
    let changed =
        reply.changed.iter().map(|row| serde_json::json!({ "at": row.at, "row": row.line.as_ref().map(json::row) }));
    let data = serde_json::json!({
        "unix_ms": reply.unix_ms,
        "summary": reply.summary.as_ref().map(json::summary),
        "total": reply.total,
        "from": reply.from,
        "rows": reply.rows,
        "changed": changed.collect::<Vec<Value>>(),
    });
    // The text of JSON has no line breaks.
    format!("data: {data}\n\n")
}
