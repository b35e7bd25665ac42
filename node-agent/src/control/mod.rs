//! The agent's side of the registry: carries out the rules' effects at the coordinator, and passes its messages to the
//! rules. Runs on one thread, off the data path.

mod connection;
mod epoch;
mod joining;

pub(crate) use connection::{CONNECT_TIMEOUT, Identity, Standing, WorldIdentity};
pub(crate) use joining::Joining;

use crate::node::{AgentEnding, Disconnect, Effect};
use crate::supervise::Supervisor;
use accord_proto::stop::StopSignals;
use connection::{Attendance, answer, words};
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A connection attempt in progress.
type Connecting<'a> = Pin<Box<dyn Future<Output = Result<Attendance, Disconnect>> + 'a>>;

/// Keeps the node in the cluster until it must not be any more: when a signal stops the agent and what uses the node has ended, for which there is
/// `drain_time`, when another signal follows, when the coordinator says so, or refuses the node for good.
pub(crate) async fn run(
    identity: &Identity,
    supervisor: &Arc<Supervisor>,
    mut stop: StopSignals,
    drain_time: Duration,
) -> AgentEnding {
    let (mut connecting, mut connection): (Option<Connecting<'_>>, Option<Attendance>) = (None, None);
    loop {
        let (effects, next) = supervisor.poll();
        supervisor.keep();
        identity.standing.registered.set(supervisor.inspect(|node, _| node.is_in()));
        let mut is_heard = true;
        for effect in effects {
            match effect {
                Effect::Connect { previous, sessions, granted, jobs } => {
                    let registration = identity.registration(previous, sessions, &granted, jobs);
                    connecting = Some(Box::pin(connection::register(identity, supervisor, registration)));
                }
                Effect::Send(word) => is_heard &= connection.as_ref().is_some_and(|open| open.send(words(word))),
                Effect::EndProcess(driver, process) => supervisor.end_driver(driver, process),
                Effect::RunScript(script, job) => identity.run_script(supervisor, script, job),
                Effect::Suspend(job, suspend) => Identity::suspend(supervisor, job, suspend),
                Effect::Measure => identity.measure(supervisor),
                Effect::Test(ordinal, number) => identity.test(supervisor, ordinal, number),
                Effect::Leave(ending) => {
                    if let Some(connection) = connection {
                        connection.say_goodbye().await;
                    }
                    return ending;
                }
            }
        }
        let full = || Disconnect::Unreachable("it takes no more messages".to_owned());
        let why = tokio::select! {
            biased;
            why = std::future::ready(full()), if !is_heard => why,
            () = stop.next() => {
                supervisor.apply(|node, now, _| node.depart(now, drain_time));
                continue;
            }
            outcome = made(&mut connecting) => {
                connecting = None;
                match outcome {
                    Ok(made) => {
                        connection = Some(made);
                        continue;
                    }
                    Err(why) => why,
                }
            }
            message = message(&mut connection) => match message {
                Ok(message) => {
                    if let (Some(answer), Some(open)) = (answer(identity, supervisor, message), &connection) {
                        // The coordinator does not wait for one for which there is no room.
                        open.send(answer);
                    }
                    continue;
                }
                Err(why) => why,
            },
            () = supervisor.news() => continue,
            () = sleep_until(next) => continue,
        };
        connection = None;
        let address = identity.coordinator.address();
        match &why {
            Disconnect::Unreachable(why) => tracing::info!("not connected to the coordinator at {address}: {why}"),
            Disconnect::Refused(why) => tracing::warn!("the coordinator at {address} refuses this node: {why}"),
            Disconnect::Replaced(_) => {}
        }
        supervisor.apply(|node, now, _| node.disconnected(now, why));
    }
}

/// Completes with the outcome of the connection attempt; never if there is none.
async fn made(connecting: &mut Option<Connecting<'_>>) -> Result<Attendance, Disconnect> {
    match connecting {
        Some(connecting) => connecting.await,
        None => std::future::pending().await,
    }
}

/// Completes with the coordinator's next message; never if there is no connection.
async fn message(connection: &mut Option<Attendance>) -> Result<accord_proto::v1::CoordinatorMessage, Disconnect> {
    match connection {
        Some(connection) => connection.message().await,
        None => std::future::pending().await,
    }
}

async fn sleep_until(time: Option<Instant>) {
    match time {
        Some(time) => tokio::time::sleep_until(time.into()).await,
        None => std::future::pending().await,
    }
}
