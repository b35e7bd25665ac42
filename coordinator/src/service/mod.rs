//! The core's network services, on the same listeners: gRPC for agents and tools, the session endpoint for programs.

mod admin;
mod api_server;
mod board;
mod caller;
mod describe;
mod driver;
mod follower;
mod groups;
mod job_errors;
mod job_words;
mod jobs;
mod journal;
mod listener;
mod local_listener;
mod log_questions;
mod outbound;
mod page;
mod page_space;
mod policies;
mod programs;
mod protocol;
mod questions;
mod referral;
mod registry;
mod report_pace;
mod reservations;
mod server_configs;
mod session_endpoint;
mod session_logs;
mod shared_stream;
mod state_writer;
mod suspensions;
mod tenants;
mod to_program;
mod token_review;
mod unauthenticated;
mod viewer;
mod watching;
mod witness;

pub use api_server::ApiServer;
pub use driver::{AgentSender, Driver, DriverSettings, QuotaFlags, unix_ms};
pub use follower::follow;
pub use listener::{Listeners, PROGRAM_LOST_AFTER};
pub use local_listener::listen_here;
pub use page::{AnonymousAccess, PageListener, page_url};
pub use referral::leads;
pub use registry::registration;
pub use state_writer::StateWriter;
pub use to_program::ToProgram;
pub use token_review::reviewed;
pub use witness::Attestation;

use programs::Programs;
use session_endpoint::SessionEndpoint;
use tenants::Tenants;

use accord_cluster::Cluster;
use accord_proto::bounds::{AGENT_MESSAGE_MAX, POLICY_REQUEST_MAX, REQUEST_MAX};
use accord_proto::v1::admin_server::AdminServer;
use accord_proto::v1::cluster_server::ClusterServer;
use accord_proto::v1::jobs_server::JobsServer;
use accord_proto::v1::policies_server::PoliciesServer;
use accord_proto::v1::registry_server::RegistryServer;
use accord_proto::v1::reservations_server::ReservationsServer;
use groups::Groups;
use questions::Questions;
use std::sync::Arc;
use std::time::Duration;
use tokio_stream::wrappers::ReceiverStream;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::Server;

/// Silence after which an HTTP/2 connection is probed, and the least timeout of a probe.
const HTTP2_PROBE: Duration = Duration::from_secs(5);
/// Most identified connections that gRPC has not taken yet.
const GRPC_WAITING_MAX: usize = 64;
/// Interval of checks of the scheduler's copy, and of counts of devices for metrics.
const COPY_FOLLOWS_EVERY: Duration = Duration::from_secs(2);
/// Number of missing inputs at which the copy follows without a query: far fewer than make the copy useless.
const LACKING_SOME: usize = 1 << 10;
/// Most concurrent calls of one connection.
const CALLS_MAX: u32 = 8;

/// Serves until `stop` is done or an administrator stops the coordinator. Then connections are dropped, and agents and
/// programs go on without a coordinator.
///
/// # Errors
/// Returns an error if gRPC fails.
pub async fn serve(
    listeners: &Listeners,
    attestation: Attestation,
    driver: Arc<Driver>,
    stop: impl Future<Output = ()>,
) -> Result<(), tonic::transport::Error> {
    let (grpc, waiting) = tokio::sync::mpsc::channel(GRPC_WAITING_MAX);
    let witnesses = witness::Witnesses::new(attestation);
    let tenants = Tenants::new(unauthenticated::descriptors());
    let registry = RegistryServer::new(registry::Registry::new(driver.clone()));
    let (questions, groups, boards) = (Questions::new(&driver), Groups::new(), board::Boards::new(driver.clone()));
    let page = listeners.page.as_ref().map(|page| {
        let site = page::Site::new(page, driver.clone(), boards.clone(), questions.clone(), tenants.clone());
        (page, site)
    });
    let site = page.as_ref().map(|(_, site)| site.clone());
    let cluster = ClusterServer::new(describe::Describer::new(driver.clone(), tenants.clone(), boards, site));
    let admin = AdminServer::new(admin::Administrator::new(driver.clone(), tenants.clone()));
    let jobs = JobsServer::new(jobs::Jobs::new(driver.clone(), questions.clone(), groups.clone()));
    let reservations = ReservationsServer::new(reservations::Reservations::new(driver.clone(), groups.clone()));
    let policies = PoliciesServer::new(policies::Policies::new(driver.clone()));
    let policies = policies.max_decoding_message_size(POLICY_REQUEST_MAX);
    let policies = InterceptedService::new(policies, policies::is_allowed);
    let server = Server::builder()
        .max_concurrent_streams(Some(CALLS_MAX))
        .http2_keepalive_interval(Some(HTTP2_PROBE))
        // The core decides when a silent node is lost, so the connection must not end earlier.
        .http2_keepalive_timeout(Some(driver.lost_after().max(HTTP2_PROBE)))
        .add_service(registry.max_decoding_message_size(AGENT_MESSAGE_MAX))
        .add_service(cluster.max_decoding_message_size(REQUEST_MAX))
        .add_service(admin.max_decoding_message_size(REQUEST_MAX))
        .add_service(jobs.max_decoding_message_size(REQUEST_MAX))
        .add_service(reservations.max_decoding_message_size(REQUEST_MAX))
        .add_service(policies)
        .serve_with_incoming(ReceiverStream::new(waiting));
    let programs = Programs::Served(SessionEndpoint::new(driver.clone(), groups, listeners.program_lost_after));
    tokio::select! {
        result = server => result,
        () = listener::accept(listeners, witnesses, tenants, programs, grpc) => Ok(()),
        () = driver.keep_time() => Ok(()),
        () = keep_copy(&driver, &questions) => Ok(()),
        () = show(page) => Ok(()),
        () = driver.stopped() => Ok(()),
        () = stop => Ok(()),
    }
}

/// Serves the page, if there is one. Never returns.
async fn show(page: Option<(&PageListener, Arc<page::Site>)>) {
    match page {
        Some((page, site)) => page::serve(page, site).await,
        None => std::future::pending().await,
    }
}

/// Counts devices by class and state for metrics, and bounds what the copy of the scheduler lacks without them. Never returns.
async fn keep_copy(driver: &Arc<Driver>, questions: &Arc<Questions>) -> ! {
    let counts = driver.counts_devices();
    loop {
        if counts || driver.with_cluster(Cluster::lacking) >= LACKING_SOME {
            questions.follow(driver, counts).await;
        }
        tokio::time::sleep(COPY_FOLLOWS_EVERY).await;
    }
}
