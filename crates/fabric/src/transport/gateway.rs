//! Lanes from a machine's processes to other nodes of an MPI job. Only the agent of their node calls MPI: the processes
//! share memory with it, and it relays their bytes uninspected. So Accord loads no MPI into these processes, and does not
//! touch a program's own MPI.
//!
//! ```text
//! process                         its node's gateway                       the other node's agent
//!   connects, "to node 3"    ->     looks up that node's rank
//!                            <-     yes, or a refusal
//!   shared memory            ->     opens a lane to that rank       ->       accepts it as from its port
//!   handshake and all else   <------------- relayed ------------->
//! ```
//!
//! A lane to the gateway's own node ends in the agent that is the gateway.

use super::lane::{Lane, SharedLane};
use super::local_socket::{self, LocalName};
use super::mpi::{MpiFabric, own, relay};
use super::socket::Socket;
use crate::route::GatewayName;
use accord_types::{NodeId, threads};
use std::io::{self, ErrorKind};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// First bytes of a request, followed by the node's number.
const MAGIC: [u8; 4] = *b"AGW1";
const REQUEST_LEN: usize = 8;
/// Length prefix of the answer's text; 0 means that the request is granted.
const ANSWER_LEN: usize = 2;
/// Longest text of a refusal.
const REFUSAL_MAX: usize = 256;
/// Most requests served at once, each by a thread; further ones wait in the listen backlog.
const REQUESTS_MAX: usize = 64;
/// The time limit of a process's request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(2);
/// The longest wait for the target's rank to become known.
const RANK_LIMIT: Duration = Duration::from_secs(2);
/// Pause before the next accept when the bound is reached or an accept has failed.
const PAUSE: Duration = Duration::from_millis(10);

/// Connects to the agent of `node` through this machine's gateway, or directly if this process is itself a rank.
pub(super) fn connect(gateway: &GatewayName, node: NodeId, timeout: Duration) -> io::Result<SharedLane> {
    if let Some(fabric) = own() {
        return fabric.connect(rank_of(fabric, node)?);
    }
    let absent =
        |error: io::Error| io::Error::new(error.kind(), format!("there is no gateway {gateway} here: {error}"));
    let socket = local_socket::begin(LocalName::of_gateway(gateway)?.connect().map_err(absent)?);
    socket.limit(Some(timeout))?;
    let lane: &dyn Lane = &socket;
    lane.send(&[MAGIC, node.0.to_le_bytes()].concat())?;
    read_answer(lane)?;
    local_socket::offer(socket)
}

/// Reads the gateway's answer: whether it has a lane to the node.
///
/// # Errors
/// Returns `HostUnreachable` with the gateway's reason if it refuses, and any error of the lane.
pub fn read_answer(lane: &dyn Lane) -> io::Result<()> {
    let mut answer = [0; ANSWER_LEN];
    lane.read_exact(&mut answer)?;
    let len = usize::from(u16::from_le_bytes(answer));
    if len == 0 {
        return Ok(());
    }
    let mut text = vec![0; len.min(REFUSAL_MAX)];
    lane.read_exact(&mut text)?;
    Err(io::Error::new(ErrorKind::HostUnreachable, String::from_utf8_lossy(&text).into_owned()))
}

/// Reads the node that a process wants to connect to.
///
/// # Errors
/// Returns `InvalidData` if the request is malformed, and any error of the lane.
pub fn read_request(lane: &dyn Lane) -> io::Result<NodeId> {
    let mut request = [0; REQUEST_LEN];
    lane.read_exact(&mut request)?;
    match request {
        [a, b, c, d, node @ ..] if [a, b, c, d] == MAGIC => Ok(NodeId(u32::from_le_bytes(node))),
        _ => Err(ErrorKind::InvalidData.into()),
    }
}

/// Returns the rank of the agent of `node`.
fn rank_of(fabric: &MpiFabric, node: NodeId) -> io::Result<u32> {
    let unknown = || io::Error::new(ErrorKind::NotFound, format!("node {} is none of this MPI job", node.0));
    fabric.rank_of(node, RANK_LIMIT).ok_or_else(unknown)
}

/// Serves the requests of this machine's processes.
#[derive(Debug)]
pub struct Gateway {
    listener: OwnedFd,
}

impl Gateway {
    /// Binds the gateway's name.
    ///
    /// # Errors
    /// Returns [`ErrorKind::AddrInUse`] if another agent of this machine has bound the name.
    pub fn bind(name: &GatewayName) -> io::Result<Self> {
        Ok(Self { listener: LocalName::of_gateway(name)?.listen()? })
    }

    /// Serves requests for as long as the process lives. Calls `failed` for each that fails.
    pub fn serve(&self, fabric: &Arc<MpiFabric>, failed: fn(&io::Error)) -> ! {
        let requests = Arc::new(AtomicUsize::new(0));
        loop {
            if requests.load(Ordering::Relaxed) >= REQUESTS_MAX {
                std::thread::sleep(PAUSE);
                continue;
            }
            let Ok(accepted) = local_socket::accept(&self.listener) else {
                std::thread::sleep(PAUSE);
                continue;
            };
            requests.fetch_add(1, Ordering::Relaxed);
            let (fabric, counted) = (fabric.clone(), requests.clone());
            let work = move || {
                // The requesting process sees the lane's end.
                if let Err(error) = pass_on(accepted, &fabric) {
                    failed(&error);
                }
                counted.fetch_sub(1, Ordering::Relaxed);
            };
            if let Err(error) = threads::spawn("accord-gateway", work) {
                requests.fetch_sub(1, Ordering::Relaxed);
                failed(&error);
            }
        }
    }
}

/// Serves one request.
fn pass_on(accepted: Socket, fabric: &MpiFabric) -> io::Result<()> {
    let lane: &dyn Lane = &accepted;
    lane.limit(Some(REQUEST_TIMEOUT))?;
    let wanted = read_request(lane)?;
    let to = rank_of(fabric, wanted).and_then(|rank| {
        // This process is the agent of this node.
        Ok(if rank == fabric.rank() { None } else { Some(fabric.open(rank)?) })
    });
    let to = match to {
        Ok(to) => to,
        Err(error) => {
            let text = error.to_string();
            let text = &text.as_bytes()[..text.len().min(REFUSAL_MAX)];
            let len = u16::try_from(text.len()).unwrap_or(0);
            return lane.send(&[&len.to_le_bytes()[..], text].concat());
        }
    };
    lane.send(&[0; ANSWER_LEN])?;
    lane.introduced(None)?;
    let lane = local_socket::share_memory(accepted)?;
    match to {
        Some(far) => relay(lane, far),
        None => fabric.bring(lane),
    }
}
