//! The agent's side of the registry: registers, says that it lives, does what the coordinator
//! says, and comes back when the connection is gone. One thread, never on the data path.

mod attend;

pub(crate) use attend::{CONNECT_TIMEOUT, Ending, Identity};

use crate::supervise::{Event, Supervisor};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;

/// First pause before connecting again, and the longest.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(1));

/// Keeps the node in the cluster until it must not be any more: when `stop` is done, when the
/// coordinator says so, or refuses the node for good.
pub(crate) async fn run(
    identity: &Identity,
    supervisor: &Arc<Supervisor>,
    mut events: mpsc::Receiver<Event>,
    stop: impl Future<Output = ()>,
) -> Ending {
    let mut stop = std::pin::pin!(stop);
    let mut pause = BACKOFF.0;
    loop {
        let ending = attend::attend(identity, supervisor, &mut events, stop.as_mut()).await;
        identity.registered.set(false);
        match ending {
            Ending::Disconnected { was_registered, why } => {
                if was_registered {
                    pause = BACKOFF.0;
                }
                tracing::info!("not connected to the coordinator at {}: {why}", identity.coordinator.address());
            }
            Ending::Refused { was_registered: true, why } => {
                // Another coordinator may be back under the old address any time, and programs
                // go on here without one.
                tracing::warn!("the coordinator at {} refuses this node: {why}", identity.coordinator.address());
                pause = BACKOFF.1;
            }
            ending => return ending,
        }
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = stop.as_mut() => return Ending::Stopped,
        }
        pause = (pause * 2).min(BACKOFF.1);
    }
}
