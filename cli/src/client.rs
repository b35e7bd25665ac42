//! Requests to a coordinator.

mod jobs;
mod reservations;
mod watch;

pub(crate) use jobs::JobAct;
pub(crate) use watch::{Watching, WholeTable};

use crate::failure::{Failure, Result};
use accord_proto::channel;
use accord_proto::v1::admin_client::AdminClient;
use accord_proto::v1::cluster_client::ClusterClient;
use accord_proto::v1::{
    CloseSessionRequest, ClusterView, DescribeRequest, DrainNodeReply, DrainNodeRequest, OpenPageReply,
    OpenPageRequest, QuarantineReply, QuarantineRequest, SessionLogsReply, SessionLogsRequest, ShutdownRequest, Viewer,
    WatchDrainRequest,
};
use accord_trust::Trust;
use accord_trust::attester::Attester;
use accord_types::settings;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Response, Status};

/// The time limit of a connection, and of an answer.
const ANSWER_LIMIT: Duration = Duration::from_secs(5);

/// The code of an answer by which a coordinator says that it can't serve a call now, such as with a full disk.
const DECLINED: Code = Code::Aborted;

/// How long one of several coordinators may take to answer whether it leads.
const REACHED_WITHIN: Duration = Duration::from_secs(2);

/// Silence after which the coordinator's machine is probed, and the time for its answer.
const PROBE: Duration = Duration::from_secs(5);

/// Interval of requests for pending measurements.
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// Most tries to get an answer of several pages while the cluster changes.
const ATTEMPTS: u32 = 4;

/// A connection to a coordinator, made at the first request.
pub(crate) struct Coordinator {
    address: String,
    runtime: Runtime,
    cluster: ClusterClient<Channel>,
    admin: AdminClient<Channel>,
    channel: Channel,
    reach: channel::Coordinator,
}

impl Coordinator {
    /// The coordinator at `address` (`host:port`), to whom this process is known by its certificates. Of several with commas between them it is
    /// the one that leads the cluster.
    pub(crate) fn new(address: &str, trust: Trust) -> Result<Self> {
        let runtime = accord_proto::runtime::one_threaded().map_err(|error| Failure::system("can't start", error))?;
        let all = channel::Coordinator::new(address, Arc::new(trust), ANSWER_LIMIT);
        let reach = leading(&runtime, &all);
        let channel = {
            let _inside = runtime.enter();
            reach.connect_lazy()
        };
        let channel =
            channel.map_err(|_| Failure::new(format!("{address:?} is no coordinator's address; give host:port")))?;
        let (cluster, admin) = (ClusterClient::new(channel.clone()), AdminClient::new(channel.clone()));
        Ok(Self { address: address.to_owned(), runtime, cluster, admin, channel, reach })
    }

    /// Returns the coordinator of the settings, for commands that need one.
    pub(crate) fn required() -> Result<Self> {
        Self::of_environment()?.ok_or_else(|| {
            let name = settings::COORDINATOR.name;
            Failure::new(format!("{name} is not set: it names the coordinator, host:port or unix:PATH"))
        })
    }

    /// Returns the coordinator of the settings, as a program reaches it, or `None` if they name none.
    pub(crate) fn of_environment() -> Result<Option<Self>> {
        let Some(address) = variable(settings::COORDINATOR.name) else { return Ok(None) };
        let (folder, munge, token) =
            (variable(settings::TLS.name), variable(settings::MUNGE.name), variable(settings::TOKEN_FILE.name));
        let home = std::env::var_os("HOME");
        let attester = Attester::of_settings(munge.as_deref(), token.as_deref());
        let trust = Trust::of_program(&address, folder.as_deref(), attester, home.as_deref())?;
        Self::new(&address, trust).map(Some)
    }

    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// Describes the cluster, and with `viewer` how that process would number its devices.
    pub(crate) fn describe(&mut self, viewer: Option<Viewer>) -> Result<ClusterView> {
        self.ask(DescribeRequest { viewer, ..request() }).map_err(|status| self.explain(&status))
    }

    /// Describes the cluster as [`Coordinator::describe`], once all possible measurements are done, or after `wait`.
    /// Includes the paths between these nodes, or all measured paths.
    pub(crate) fn describe_measured(
        &mut self,
        viewer: Option<&Viewer>,
        paths_of: &[u32],
        wait: Duration,
    ) -> Result<ClusterView> {
        let begun = Instant::now();
        loop {
            let request =
                DescribeRequest { viewer: viewer.cloned(), measure: true, paths_of: paths_of.to_vec(), ..request() };
            let view = self.ask(request).map_err(|status| self.explain(&status))?;
            if view.measuring == 0 || begun.elapsed() >= wait {
                return Ok(view);
            }
            std::thread::sleep(POLL_INTERVAL);
        }
    }

    /// Describes the cluster as [`Coordinator::describe`], or returns `None` if no coordinator listens yet.
    pub(crate) fn describe_if_up(&mut self) -> Result<Option<ClusterView>> {
        match self.ask(request()) {
            Ok(view) => Ok(Some(view)),
            Err(status) if status.code() == Code::Unavailable => Ok(None),
            Err(status) => Err(self.explain(&status)),
        }
    }

    /// Returns all pages of an answer. Starts over if the cluster changes meanwhile, a limited number of times.
    fn ask(&mut self, request: DescribeRequest) -> Result<ClusterView, Status> {
        let mut attempts = ATTEMPTS;
        'anew: loop {
            attempts -= 1;
            let mut view = answered(&self.runtime, self.cluster.describe(request.clone()))?;
            loop {
                let Some(start) = view.next.take() else { return Ok(view) };
                let request = DescribeRequest { page: Some(start), measure: false, ..request.clone() };
                let page = answered(&self.runtime, self.cluster.describe(request))?;
                if page.version != view.version && attempts > 0 {
                    continue 'anew;
                }
                append(&mut view, page);
            }
        }
    }

    /// Returns the address of the coordinator's page with a code for this user.
    pub(crate) fn open_page(&mut self) -> Result<OpenPageReply> {
        let request = OpenPageRequest { version: accord_proto::VERSIONS.own() };
        answered(&self.runtime, self.cluster.open_page(request)).map_err(|status| self.explain(&status))
    }

    /// Drains a node or a device, or takes that back. Returns the sessions and jobs that still use it.
    pub(crate) fn drain(&mut self, request: DrainNodeRequest) -> Result<DrainNodeReply> {
        answered(&self.runtime, self.admin.drain_node(request)).map_err(|status| self.explain(&status))
    }

    /// Calls `reported` with the users of a node or device, at once and at each change, until there are none.
    pub(crate) fn watch_drain(
        &mut self,
        node: &str,
        ordinal: Option<u32>,
        mut reported: impl FnMut(&DrainNodeReply),
    ) -> Result<()> {
        let request = WatchDrainRequest { version: accord_proto::VERSIONS.own(), node_name: node.to_owned(), ordinal };
        // The answer has no time limit, so probes detect the end of the coordinator's machine.
        let probed = |endpoint: Endpoint| {
            endpoint.http2_keep_alive_interval(PROBE).keep_alive_timeout(PROBE).keep_alive_while_idle(true)
        };
        let watched = self.runtime.block_on(async {
            let mut admin = AdminClient::new(self.reach.connect(probed).await?);
            let mut uses = admin.watch_drain(request).await?.into_inner();
            while let Some(reply) = uses.message().await? {
                reported(&reply);
                if reply.sessions.is_empty() && reply.jobs.is_empty() {
                    return Ok(());
                }
            }
            Err(Status::unavailable("it stopped while the drain was waited for; the drain stays in place"))
        });
        watched.map_err(|status| self.explain(&received(&status)))
    }

    /// Puts a device into quarantine, or releases it. Returns the jobs that hold it.
    pub(crate) fn quarantine(&mut self, request: QuarantineRequest) -> Result<QuarantineReply> {
        answered(&self.runtime, self.admin.quarantine(request)).map_err(|status| self.explain(&status))
    }

    /// Ends a session.
    pub(crate) fn close(&mut self, session: u64) -> Result<()> {
        let request = CloseSessionRequest { version: accord_proto::VERSIONS.own(), session };
        answered(&self.runtime, self.admin.close_session(request)).map(drop).map_err(|status| self.explain(&status))
    }

    /// Returns what nodes have written about a session.
    pub(crate) fn session_logs(&mut self, session: u64) -> Result<SessionLogsReply> {
        let request = SessionLogsRequest { version: accord_proto::VERSIONS.own(), session };
        answered(&self.runtime, self.cluster.session_logs(request)).map_err(|status| self.explain(&status))
    }

    /// Stops the coordinator, and with `agents` those too.
    pub(crate) fn shutdown(&mut self, agents: bool) -> Result<()> {
        let request = ShutdownRequest { version: accord_proto::VERSIONS.own(), agents };
        answered(&self.runtime, self.admin.shutdown(request)).map(drop).map_err(|status| self.explain(&status))
    }

    fn explain(&self, status: &Status) -> Failure {
        Failure::new(words(&self.address, status))
    }
}

/// Returns the reason of a failed call to the coordinator at `address`, in words.
fn words(address: &str, status: &Status) -> String {
    let said = status.message();
    match status.code() {
        Code::Unavailable => format!(
            "no coordinator answers at {address} ({said}); start accord-coordinator there, or correct {}",
            settings::COORDINATOR.name
        ),
        Code::Unauthenticated | Code::PermissionDenied => format!("the coordinator at {address} refuses: {said}"),
        _ => format!("the coordinator at {address} says: {said}"),
    }
}

/// Returns the coordinator of a list that leads the cluster: the others are unavailable. Without one, returns the last: its error says why.
fn leading(runtime: &Runtime, all: &channel::Coordinator) -> channel::Coordinator {
    let mut each = all.each().peekable();
    loop {
        let Some(coordinator) = each.next() else { return all.clone() };
        if each.peek().is_none() {
            return coordinator;
        }
        let asked = runtime.block_on(async {
            let asks = async {
                let channel = coordinator.connect(|endpoint| endpoint).await?;
                ClusterClient::new(channel).describe(request()).await
            };
            tokio::time::timeout(REACHED_WITHIN, asks).await
        });
        if asked.is_ok_and(|asked| asked.err().is_none_or(|status| status.code() != Code::Unavailable)) {
            return coordinator;
        }
    }
}

/// Adds what a further page of an answer has.
fn append(view: &mut ClusterView, page: ClusterView) {
    view.nodes.extend(page.nodes);
    view.sessions.extend(page.sessions);
    view.numbering.extend(page.numbering);
    view.paths.extend(page.paths);
    view.next = page.next;
}

/// Returns a request for the first page.
fn request() -> DescribeRequest {
    DescribeRequest { version: accord_proto::VERSIONS.own(), ..DescribeRequest::default() }
}

/// Returns an environment variable, unless it is empty.
pub(crate) fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// Waits for an answer within the time limit.
fn answered<T>(runtime: &Runtime, answer: impl Future<Output = Result<Response<T>, Status>>) -> Result<T, Status> {
    answered_within(runtime, ANSWER_LIMIT, answer)
}

fn answered_within<T>(
    runtime: &Runtime,
    limit: Duration,
    answer: impl Future<Output = Result<Response<T>, Status>>,
) -> Result<T, Status> {
    // The timer must be created inside the runtime.
    match runtime.block_on(async { tokio::time::timeout(limit, answer).await }) {
        Ok(answer) => answer.map(Response::into_inner).map_err(|status| received(&status)),
        Err(_) => Err(Status::deadline_exceeded(format!("no answer within {} s", limit.as_secs()))),
    }
}

/// Returns the reason of a failed call. A coordinator that is reached but can't answer now gets [`DECLINED`], so that it
/// differs from one that does not answer.
fn received(status: &Status) -> Status {
    // Only an error of the connection has a source.
    if status.code() == Code::Unavailable && std::error::Error::source(status).is_none() {
        return Status::new(DECLINED, status.message());
    }
    // The reason within an error of the connection has no source: what it says is all that there is.
    channel::reason(status).unwrap_or_else(|| status.clone())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn a_coordinator_that_answers_speaks_for_itself() {
        let full =
            "the state file /state: No space left on device; make room; the change takes effect once that is done";
        let answer = received(&Status::unavailable(full));
        assert_eq!(words("gpu01:7410", &answer), format!("the coordinator at gpu01:7410 says: {full}"));
    }

    #[test]
    fn a_coordinator_that_is_not_reached_is_named_with_the_cause() {
        let mut broken = Status::unavailable("Connection refused (os error 111)");
        broken.set_source(Arc::new(std::io::Error::from(std::io::ErrorKind::ConnectionRefused)));
        let start =
            "no coordinator answers at gpu01:7410 (Connection refused (os error 111)); start accord-coordinator";
        let told = words("gpu01:7410", &received(&broken));
        assert!(told.starts_with(start), "{told}");
    }
}
