//! Every role at every endpoint: forbidden acts are refused with a message, and recorded traffic can't be replayed.

use crate::requests::request;
use crate::uncertified::uncertified;
use crate::watching::{rows_of, watch};
use accord_cluster::Limits;
use accord_coordinator::Background;
use accord_fabric::frame::session::Message;
use accord_fabric::session_endpoint;
use accord_fabric::transport::PeerAddress;
use accord_proto::v1::admin_client::AdminClient;
use accord_proto::v1::cluster_client::ClusterClient;
use accord_proto::v1::jobs_client::JobsClient;
use accord_proto::v1::policies_client::PoliciesClient;
use accord_proto::v1::registry_client::RegistryClient;
use accord_proto::v1::reservations_client::ReservationsClient;
use accord_proto::{VERSION, channel, v1};
use accord_trust::access::{Act, may};
use accord_trust::issue::Authority;
use accord_trust::{Identity, Role, Trust, explain};
use accord_types::ErrorCode;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::runtime::Runtime;
use tokio_rustls::rustls;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Channel;
use tonic::{Code, Status, Streaming};
use v1::agent_message::Body;

const SOON: Duration = Duration::from_secs(10);
const HOUR: Duration = Duration::from_secs(3600);

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

fn start(authority: &Authority) -> Background {
    let own = authority.identity(Role::Coordinator, HOUR).unwrap();
    Background::start("127.0.0.1:0".parse().unwrap(), own, Limits::default()).unwrap()
}

fn roles() -> [Role; 4] {
    [Role::Coordinator, Role::Agent("h1".into()), Role::Tenant("eva".into()), Role::Admin("root".into())]
}

/// Opens an agent's connection with this first message.
async fn attend(channel: Channel, first: Body) -> Result<Streaming<v1::CoordinatorMessage>, Status> {
    let (outbox, messages) = tokio::sync::mpsc::channel(1);
    outbox.try_send(v1::AgentMessage { body: Some(first) }).unwrap();
    Ok(RegistryClient::new(channel).attend(ReceiverStream::new(messages)).await?.into_inner())
}

/// Performs an act over gRPC. Returns the result.
fn call(runtime: &Runtime, address: &str, own: Identity, act: Act) -> Result<(), Status> {
    let coordinator = channel::Coordinator::new(address, Arc::new(Trust::fixed(own)), SOON);
    let version = VERSION;
    runtime.block_on(async {
        let channel = coordinator.connect(|endpoint| endpoint).await?;
        let mut admin = AdminClient::new(channel.clone());
        let mut jobs = JobsClient::new(channel.clone());
        match act {
            Act::Register => {
                let register = v1::Register { version, node_name: "h1".into(), ..Default::default() };
                attend(channel, Body::Register(register)).await?.message().await?;
            }
            Act::Describe => {
                let request = v1::DescribeRequest { version, ..v1::DescribeRequest::default() };
                let mut cluster = ClusterClient::new(channel);
                cluster.describe(request).await?;
                watch(&mut cluster, rows_of(v1::WatchTable::Nodes)).await?;
            }
            Act::DrainNode => {
                let node_name = "h9".into();
                let watch = v1::WatchDrainRequest { version, node_name: "h9".into(), ordinal: None };
                let watched = admin.watch_drain(watch).await.err();
                let drain = v1::DrainNodeRequest { version, node_name, drain: true, ..Default::default() };
                let drained = admin.drain_node(drain).await;
                assert_eq!(watched.map(|status| status.code()), drained.as_ref().err().map(Status::code));
                drop(drained?);
            }
            Act::CloseSession => drop(admin.close_session(v1::CloseSessionRequest { version, session: 9 }).await?),
            Act::Shutdown => drop(admin.shutdown(v1::ShutdownRequest { version, agents: false }).await?),
            Act::SeeJobs => {
                jobs.queue(v1::QueueRequest { version, ..v1::QueueRequest::default() }).await?;
                jobs.history(v1::HistoryRequest { version, before: None }).await?;
                jobs.usage(v1::UsageRequest { version, by: v1::UsageBy::Day.into(), from: 0 }).await?;
                let what_if = v1::WhatIfRequest { version, request: "1:cpu".into(), node_name: "h1".into() };
                jobs.what_if(what_if).await?;
                let list = v1::ListReservationsRequest { version, after: String::new() };
                ReservationsClient::new(channel).list_reservations(list).await?;
                jobs.explain_job(v1::JobRequest { version, job: 9 }).await?;
            }
            Act::ChangeOwnJobs => {
                let request = v1::JobRequest { version, job: 9 };
                let [hold, release] = [jobs.hold_job(request).await, jobs.release_job(request).await];
                let suspend = v1::SuspendJobRequest { version, job: 9, reason: String::new() };
                let [suspend, resume] = [jobs.suspend_job(suspend).await, jobs.resume_job(request).await];
                let codes = [&hold, &release, &suspend, &resume].map(|reply| reply.as_ref().err().map(Status::code));
                let cancel = jobs.cancel_job(request).await;
                let code = cancel.as_ref().err().map(Status::code);
                assert!(code.is_some() && codes.iter().all(|of| *of == code), "there is no job 9: {codes:?}, {code:?}");
                drop(cancel?);
            }
            Act::ChangeAllJobs => {
                let request = v1::ChangeJobRequest { version, job: 9, limit_ms: Some(1), first: false };
                drop(jobs.change_job(request).await?);
            }
            Act::PauseJobs => drop(jobs.pause(v1::PauseRequest { version, pause: true }).await?),
            Act::ApplyPolicy => {
                let request = v1::ApplyPolicyRequest { version, policy: String::new(), check_only: true };
                drop(PoliciesClient::new(channel).apply_policy(request).await?);
            }
            Act::ChangeReservations => {
                let mut reservations = ReservationsClient::new(channel);
                let create = v1::CreateReservationRequest { version, ..v1::CreateReservationRequest::default() };
                let created = reservations.create_reservation(create).await.err();
                let delete = v1::DeleteReservationRequest { version, name: "none".into() };
                drop(reservations.delete_reservation(delete).await?);
                assert!(created.is_some(), "it has no name");
            }
            Act::OpenSession | Act::Coordinate => unreachable!("not over gRPC"),
        }
        Ok(())
    })
}

#[test]
fn every_call_of_every_role_is_answered_as_the_table_says() {
    let (authority, runtime) = (Authority::new("c1", HOUR).unwrap(), runtime());
    let coordinator = start(&authority);
    let address = coordinator.address().to_string();
    // The act that ends the coordinator is last.
    let over_grpc = Act::ALL.into_iter().filter(|act| !matches!(act, Act::Coordinate | Act::OpenSession));
    let last = Act::Shutdown;
    for act in over_grpc.filter(|act| *act != last).chain([last]) {
        for role in roles() {
            let status = call(&runtime, &address, authority.identity(role.clone(), HOUR).unwrap(), act).err();
            let refused = status.as_ref().is_some_and(|status| status.code() == Code::PermissionDenied);
            assert_eq!(refused, !may(&role, act), "{role}: {act}: {status:?}");
            if let Some(status) = status.filter(|_| refused) {
                let printed = status.message();
                assert!(
                    printed.contains(&format!("{role} may not {act}")) && printed.contains("accord pki issue"),
                    "{printed}"
                );
            }
        }
    }
}

/// Otherwise any holder of a certificate could end jobs while they begin.
#[test]
fn jobs_are_joined_by_agents_only_and_in_their_own_names() {
    let (authority, runtime) = (Authority::new("c1", HOUR).unwrap(), runtime());
    let coordinator = start(&authority);
    let join = |role: &Role, node_name: &str, version| {
        let own = authority.identity(role.clone(), HOUR).unwrap();
        let address = coordinator.address().to_string();
        let coordinator = channel::Coordinator::new(&address, Arc::new(Trust::fixed(own)), SOON);
        let join = v1::JoinWorld { version, node_name: node_name.into(), world: "world".into(), run: 0 };
        runtime.block_on(async { attend(coordinator.connect(|endpoint| endpoint).await?, Body::JoinWorld(join)).await })
    };
    for role in roles() {
        assert_eq!(join(&role, "h1", VERSION).is_ok(), may(&role, Act::Register), "{role}");
    }
    let agent = Role::Agent("h1".into());
    assert_eq!(join(&agent, "h2", VERSION).unwrap_err().code(), Code::PermissionDenied);
    assert_eq!(join(&agent, "h1", VERSION + 2).unwrap_err().code(), Code::FailedPrecondition);
}

/// A client without a certificate gets an error but no session, and does not affect other clients.
#[test]
fn without_a_certificate_nothing_is_answered() {
    let authority = Authority::new("c1", HOUR).unwrap();
    let coordinator = start(&authority);
    let open = Message::Open(request("h1")).encode();
    for protocol in [session_endpoint::PROTOCOL.as_bytes(), b"h2"] {
        let name = rustls::pki_types::ServerName::try_from("accord").unwrap();
        let client = rustls::ClientConnection::new(Arc::new(uncertified(protocol)), name).unwrap();
        let tcp = TcpStream::connect(coordinator.address()).unwrap();
        tcp.set_read_timeout(Some(SOON)).unwrap();
        let mut lane = rustls::StreamOwned::new(client, tcp);
        // In TLS 1.3 a client finishes before the server has verified its certificate.
        let _ = lane.write_all(&open);
        let mut printed = Vec::new();
        let error = lane.read_to_end(&mut printed).unwrap_err();
        assert!(printed.is_empty(), "{printed:?}");
        let reported = explain::broken(&error, "the coordinator").to_string();
        assert!(reported.contains("asks for a certificate") && reported.contains("ACCORD_TLS"), "{reported}");
    }
    let tenant = authority.identity(Role::Tenant("eva".into()), HOUR).unwrap();
    let error = session_endpoint::open(&PeerAddress::new(coordinator.address()), &tenant, SOON, &request("h1"));
    // The tenant's error is that there is no node.
    assert!(error.unwrap_err().cause().contains("no node"));
}

#[test]
fn only_tenants_open_sessions() {
    let authority = Authority::new("c1", HOUR).unwrap();
    let coordinator = start(&authority);
    for role in roles() {
        let own = authority.identity(role.clone(), HOUR).unwrap();
        let error =
            session_endpoint::open(&PeerAddress::new(coordinator.address()), &own, SOON, &request("h1")).unwrap_err();
        // The error for a role that may open sessions is that there is no device.
        let refused = error.cause().contains(&format!("{role} may not open sessions"));
        assert_eq!(refused, !may(&role, Act::OpenSession), "{error}");
        assert!(error.remedy_text().is_some(), "{error}");
    }
}

#[test]
fn strangers_are_refused_by_programs_and_agents_endpoints_alike() {
    let (authority, other, runtime) =
        (Authority::new("c1", HOUR).unwrap(), Authority::new("c1", HOUR).unwrap(), runtime());
    let coordinator = start(&authority);
    let address = PeerAddress::new(coordinator.address());
    let tenant = || Role::Tenant("eva".into());
    let ended = authority.identity(tenant(), Duration::ZERO).unwrap();
    std::thread::sleep(Duration::from_millis(1100));
    let error = session_endpoint::open(&address, &ended, SOON, &request("h1")).unwrap_err();
    assert!(error.to_string().contains("not valid at this time") && error.to_string().contains("renew"), "{error}");
    let status = call(&runtime, address.as_str(), ended, Act::Describe).unwrap_err();
    assert_eq!(status.code(), Code::Unauthenticated);
    assert!(status.message().contains("not valid at this time") && status.message().contains("renew"), "{status}");

    let unauthenticated = other.identity(tenant(), HOUR).unwrap();
    let error = session_endpoint::open(&address, &unauthenticated, SOON, &request("h1")).unwrap_err();
    assert!(error.to_string().contains("of another authority") && error.to_string().contains("ca.crt"), "{error}");
    let status = call(&runtime, address.as_str(), unauthenticated, Act::Describe).unwrap_err();
    assert_eq!(status.code(), Code::Unauthenticated);
    assert!(status.message().contains("of another authority"), "{status}");
}

#[test]
fn only_a_coordinator_is_believed_in_the_coordinators_place() {
    let (authority, runtime) = (Authority::new("c1", HOUR).unwrap(), runtime());
    for role in roles().into_iter().skip(1) {
        let own = authority.identity(role.clone(), HOUR).unwrap();
        let impostor = Background::start("127.0.0.1:0".parse().unwrap(), own, Limits::default()).unwrap();
        let tenant = || authority.identity(Role::Tenant("eva".into()), HOUR).unwrap();
        let address = PeerAddress::new(impostor.address());
        let error = session_endpoint::open(&address, &tenant(), SOON, &request("h1")).unwrap_err();
        assert!(error.cause().contains(&format!("{role} may not be the coordinator")), "{error}");
        assert_eq!(error.code(), ErrorCode::DeviceUnavailable);
        let status = call(&runtime, address.as_str(), tenant(), Act::Describe).unwrap_err();
        assert!(status.message().contains(&format!("{role} may not be the coordinator")), "{status}");
    }
}

#[test]
fn recorded_admin_traffic_can_not_be_replayed() {
    let (authority, runtime) = (Authority::new("c1", HOUR).unwrap(), runtime());
    let coordinator = start(&authority);
    // A proxy that records all bytes of an administrator.
    let (tap, observed) = (TcpListener::bind("127.0.0.1:0").unwrap(), Arc::new(Mutex::new(Vec::new())));
    let (address, kept, target) = (tap.local_addr().unwrap().to_string(), observed.clone(), coordinator.address());
    std::thread::spawn(move || {
        let (mut from, _) = tap.accept().unwrap();
        let mut to = TcpStream::connect(target).unwrap();
        let (mut back_from, mut back_to) = (to.try_clone().unwrap(), from.try_clone().unwrap());
        std::thread::spawn(move || std::io::copy(&mut back_from, &mut back_to));
        let mut bytes = [0; 4096];
        while let Ok(n @ 1..) = from.read(&mut bytes) {
            kept.lock().unwrap().extend_from_slice(&bytes[..n]);
            if to.write_all(&bytes[..n]).is_err() {
                break;
            }
        }
    });
    let admin = || authority.identity(Role::Admin("root".into()), HOUR).unwrap();
    call(&runtime, &address, admin(), Act::Describe).unwrap();
    let observed = observed.lock().unwrap().clone();
    for word in [&b"accord-token"[..], b"accord.v1", b"Describe", b"admin"] {
        assert!(!observed.windows(word.len()).any(|window| window == word), "{}", String::from_utf8_lossy(word));
    }
    // A replay ends in the handshake.
    let mut again = TcpStream::connect(coordinator.address()).unwrap();
    again.write_all(&observed).unwrap();
    again.set_read_timeout(Some(SOON)).unwrap();
    let mut answer = Vec::new();
    let _ = again.read_to_end(&mut answer);
    assert!(!answer.windows(4).any(|window| window == b"grpc"));
    call(&runtime, &coordinator.address().to_string(), admin(), Act::Describe).unwrap();
}

#[test]
fn renewed_certificates_count_without_a_restart_and_sessions_go_on() {
    let (authority, folder) = (Authority::new("c1", HOUR).unwrap(), tempfile::tempdir().unwrap());
    let own = folder.path().join("own");
    authority.issue_into(&own, Role::Tenant("eva".into()), Duration::ZERO).unwrap();
    std::thread::sleep(Duration::from_millis(1100));
    let trust = Arc::new(Trust::read(&own).unwrap());
    let (coordinator, runtime) = (start(&authority), runtime());
    let reach = channel::Coordinator::new(&coordinator.address().to_string(), trust, SOON);
    let describe = || {
        runtime.block_on(async {
            let mut cluster = ClusterClient::new(reach.connect(|endpoint| endpoint).await?);
            cluster.describe(v1::DescribeRequest { version: VERSION, ..v1::DescribeRequest::default() }).await?;
            Ok::<_, Status>(cluster)
        })
    };
    assert_eq!(describe().err().map(|status| status.code()), Some(Code::Unauthenticated));
    authority.renew(&own, HOUR).unwrap();
    let mut before = describe().unwrap();
    authority.renew(&own, HOUR).unwrap();
    describe().unwrap();
    let again = before.describe(v1::DescribeRequest { version: VERSION, ..v1::DescribeRequest::default() });
    runtime.block_on(again).unwrap();
}
