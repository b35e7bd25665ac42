//! Opening a session.

use crate::coordinator_link::{CoordinatorLink, SESSION_TIMEOUT};
use crate::session::Session;
use crate::settings::{Coordinator, Order, SessionSettings, UserMessages};
use accord_fabric::frame::session::Claim;
use accord_fabric::session_endpoint::{self, OpenRetries};
use accord_runtime::ports::Cluster;
use accord_types::{Lease, OrderPolicy, Result, SessionRequest, os_text};

/// Opens a session: with the coordinator's lease, or on this machine alone.
///
/// # Errors
/// Returns `acc_error_device_unavailable` if the coordinator can't be reached or refuses.
pub fn connect(mut settings: SessionSettings) -> Result<Box<dyn Cluster>> {
    let Some(coordinator) = settings.coordinator.take() else {
        let locals = (settings.local)(&settings.devices)?.into_iter().flatten().collect();
        return Ok(Box::new(Session::of_this_machine(locals)));
    };
    let wanted = std::mem::take(&mut settings.wanted);
    let order = match wanted.order {
        Order::Local | Order::Node => OrderPolicy::Local,
        Order::Global => OrderPolicy::Global,
        Order::Rank => OrderPolicy::Rank,
    };
    let request = SessionRequest {
        node_name: settings.node_name.clone(),
        pid: std::process::id(),
        program: os_text::displayed(settings.program.exe.rsplit('/').next().unwrap_or_default()),
        rank: wanted.rank,
        kind: wanted.kind,
        order,
        devices: wanted.request,
        job: wanted.job,
    };
    let (mut lease, connection) = {
        let Coordinator { address, trust } = &coordinator;
        let UserMessages { notify, waits } = &settings.messages;
        let retries = OpenRetries { time: settings.limits.opening, notify: &**notify, waits: &**waits };
        let identity = trust.current(|_| ());
        session_endpoint::open_with_retries(address, &identity, SESSION_TIMEOUT, &retries, &request)?
    };
    if wanted.order == Order::Node {
        let own = lease.own_node;
        lease.devices.retain(|device| Some(device.info.id.node) == own);
    }
    let claim = Claim { session: lease.session, key: lease.key, request };
    let link = CoordinatorLink::new(coordinator, claim, connection, lease.is_of_job, settings.limits.opening);
    Ok(Box::new(Session::of_lease(lease, settings, Some(link))?))
}

/// Opens a session with a lease that did not come from a coordinator.
///
/// # Errors
/// Returns an error if a device of this machine can't be driven.
pub fn connect_direct(lease: Lease, settings: SessionSettings) -> Result<Session> {
    Session::of_lease(lease, settings, None)
}
