//! The registry service: connections of agents.

use super::caller::Caller;
use super::driver::{AGENT_OUTBOX_MAX, Driver};
use accord_cluster::{Input, Joiner, LinkId, MeasuredPath, Registration};
use accord_proto::VERSIONS;
use accord_proto::convert::{Malformed, check_version, node_labels};
use accord_proto::v1;
use accord_trust::access::Act;
use accord_types::{
    DeviceFault, DeviceInfo, DeviceLoad, DeviceUse, DeviceVerdict, Machine, NodeId, SessionId, SessionKey, SiteScript,
};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming};
use v1::agent_message::Body;

/// Timeout for an agent's first message.
const REGISTER_TIMEOUT: Duration = Duration::from_secs(5);

/// The registry service.
pub(super) struct Registry {
    driver: Arc<Driver>,
}

impl Registry {
    pub(super) fn new(driver: Arc<Driver>) -> Self {
        Self { driver }
    }
}

#[tonic::async_trait]
impl v1::registry_server::Registry for Registry {
    type AttendStream = ReceiverStream<Result<v1::CoordinatorMessage, Status>>;

    async fn attend(
        &self,
        request: Request<Streaming<v1::AgentMessage>>,
    ) -> Result<Response<Self::AttendStream>, Status> {
        let caller = Caller::check(&request, Act::Register)?.clone();
        let mut inbound = request.into_inner();
        let first = tokio::time::timeout(REGISTER_TIMEOUT, inbound.message())
            .await
            .map_err(|_| Status::deadline_exceeded("no registration came"))??;
        let Some(first) = first.and_then(|message| message.body) else {
            return Err(Malformed("the first message is empty").into());
        };
        let (outbox, replies) = mpsc::channel(AGENT_OUTBOX_MAX);
        let (link, name, version) = match first {
            Body::Register(register) => {
                let version = register.version;
                check_version(version)?;
                caller.check_node(&register.node_name)?;
                let registration = registration(register, caller.ip())?;
                let (link, name) = (self.driver.add_agent(outbox), registration.node_name.clone());
                self.driver.input(Input::Register { link, registration });
                (link, name, version)
            }
            Body::JoinWorld(v1::JoinWorld { version, node_name, world, run }) => {
                check_version(version)?;
                caller.check_node(&node_name)?;
                let (link, name) = (self.driver.add_agent(outbox), node_name.clone());
                self.driver.input(Input::Join { link, joiner: Joiner { node_name, world, run } });
                (link, name, version)
            }
            _ => return Err(Malformed("the first message is no registration").into()),
        };
        let driver = self.driver.clone();
        tokio::spawn(async move {
            if let Err(status) = listen(&driver, (link, version), &mut inbound).await {
                tracing::info!("the connection of node {name}'s agent ended: {}", status.message());
            }
            driver.remove_agent(link);
        });
        Ok(Response::new(ReceiverStream::new(replies)))
    }
}

/// Passes the messages of an agent, which speaks `version`, to the core until the connection ends or the core drops it.
async fn listen(
    driver: &Driver,
    (link, version): (LinkId, u32),
    inbound: &mut Streaming<v1::AgentMessage>,
) -> Result<(), Status> {
    while driver.has_agent(link) {
        let Some(message) = inbound.message().await? else { return Ok(()) };
        let body = match message.body {
            Some(body) => body,
            // A message that only the next release knows.
            None if version > VERSIONS.own() => continue,
            None => return Err(Malformed("an empty message").into()),
        };
        let input = match body {
            Body::Register(_) | Body::JoinWorld(_) => return Err(Malformed("registered twice").into()),
            Body::Heartbeat(beat) => {
                Input::Heartbeat { link, sessions: beat.sessions.into_iter().map(SessionId).collect() }
            }
            Body::UseReport(report) => {
                let uses = report.uses.into_iter().map(|used| {
                    let v1::DeviceUse { session, ordinal, busy_ms, bytes_in, bytes_out, held, fault } = used;
                    let fault = DeviceFault::from_wire(fault);
                    (SessionId(session), ordinal, DeviceUse { busy_ms, bytes_in, bytes_out, held, fault })
                });
                Input::AgentUsed { link, uses: uses.collect() }
            }
            Body::LoadReport(report) => {
                let loads = report.loads.into_iter().map(|load| {
                    let v1::DeviceLoad { ordinal, busy_percent, memory_used } = load;
                    (ordinal, DeviceLoad { busy_percent: busy_percent.map(|percent| percent.min(100)), memory_used })
                });
                Input::AgentLoads { link, loads: loads.collect() }
            }
            Body::UseEnded(ended) => {
                Input::UseEnded { link, sessions: ended.sessions.into_iter().map(SessionId).collect() }
            }
            Body::SessionStarted(started) => {
                Input::ExecutorStarted { link, grant: started.grant.ok_or(Malformed("no grant"))?.try_into()? }
            }
            Body::SessionEnded(ended) => {
                let session = SessionId(ended.session);
                if !ended.reason.is_empty() {
                    tracing::warn!("an executor of {session} ended: {}", ended.reason);
                }
                Input::ExecutorEnded { link, session, why: ended.reason }
            }
            Body::JobReleased(released) => {
                let job = SessionKey::from_bytes(&released.job).ok_or(Malformed("a job's key that is none"))?;
                Input::JobReleased { link, job }
            }
            Body::JobSuspended(v1::JobSuspended { job, suspend, why }) => {
                let job = SessionKey::from_bytes(&job).ok_or(Malformed("a job's key that is none"))?;
                let outcome = if why.is_empty() { Ok(()) } else { Err(why) };
                Input::JobSuspended { link, job, suspend, outcome }
            }
            Body::ScriptFailed(failed) => {
                let job = SessionKey::from_bytes(&failed.job).ok_or(Malformed("a job's key that is none"))?;
                let script = match failed.script() {
                    v1::SiteScript::Prolog => SiteScript::Prolog,
                    v1::SiteScript::Epilog | v1::SiteScript::Unspecified => SiteScript::Epilog,
                };
                Input::ScriptFailed { link, job, script, why: failed.why }
            }
            Body::DeviceTested(tested) => {
                let v1::DeviceTested { ordinal, verdict: _, why, number } = &tested;
                let verdict = verdict(tested.verdict(), why.clone())?;
                Input::DeviceTested { link, ordinal: *ordinal, number: *number, verdict }
            }
            Body::Leaving(_) => Input::Leaving { link },
            Body::SessionLog(log) => {
                driver.with_log_questions(|questions| questions.answer(link, log));
                continue;
            }
            Body::Goodbye(_) => Input::Goodbye { link },
            Body::NodeFigures(figures) => Input::NodeMeasured { link, figures: figures.into() },
            Body::PathMeasured(measured) => {
                let v1::PathMeasured { measurement, times, transport, why } = measured;
                let path = times.map(|times| MeasuredPath { times: times.into(), transport }).ok_or(why);
                Input::PathMeasured { link, measurement, path }
            }
        };
        driver.input(input);
    }
    Ok(())
}

/// Returns the core's form of an agent's registration, whose connection comes from `peer`.
///
/// # Errors
/// Returns what is malformed.
pub fn registration(register: v1::Register, peer: IpAddr) -> Result<Registration, Malformed> {
    let devices = register.devices.into_iter().map(DeviceInfo::try_from);
    Ok(Registration {
        node_name: register.node_name,
        incarnation: register.incarnation,
        address: reachable(register.address, peer),
        devices: devices.collect::<Result<_, _>>()?,
        machine: Machine {
            hardware: register.hardware.unwrap_or_default().into(),
            labels: node_labels(register.labels)?,
            kernel_limits: register.kernel_limits.unwrap_or_default().into(),
        },
        previous: register.previous_node.map(NodeId),
        coordinator_epoch: register.coordinator_epoch,
        sessions: register.sessions.into_iter().map(TryInto::try_into).collect::<Result<_, _>>()?,
        jobs: register.jobs.into_iter().map(TryInto::try_into).collect::<Result<_, _>>()?,
        granted: register.granted.into_iter().map(SessionId).collect(),
        world: register.world,
        draining: register.draining,
    })
}

fn verdict(verdict: v1::DeviceVerdict, why: String) -> Result<DeviceVerdict, Malformed> {
    match verdict {
        v1::DeviceVerdict::Works => Ok(DeviceVerdict::Works),
        v1::DeviceVerdict::Faulty => Ok(DeviceVerdict::Faulty(why)),
        v1::DeviceVerdict::Unknown => Ok(DeviceVerdict::Unknown(why)),
        v1::DeviceVerdict::Unspecified => Err(Malformed("a test without a verdict")),
    }
}

/// Returns the address of an agent. One that listens on every address is reached at the address that it connected from.
fn reachable(address: String, peer: IpAddr) -> String {
    match address.parse::<SocketAddr>() {
        Ok(addr) if addr.ip().is_unspecified() => SocketAddr::new(peer.to_canonical(), addr.port()).to_string(),
        _ => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unspecified_address_becomes_the_one_that_the_agent_came_from() {
        let peer = "10.0.0.3".parse().unwrap();
        assert_eq!(reachable("0.0.0.0:70".into(), peer), "10.0.0.3:70");
        assert_eq!(reachable("[::]:70".into(), "::ffff:10.0.0.3".parse().unwrap()), "10.0.0.3:70");
        assert_eq!(reachable("10.1.1.1:70".into(), peer), "10.1.1.1:70");
        assert_eq!(reachable("h3:70".into(), peer), "h3:70");
    }
}
