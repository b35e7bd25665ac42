//! The listener that hands out certificates.

use crate::output::show;
use accord_trust::Role;
use accord_trust::join::{Issuer, Open, accept};
use accord_types::{ErrorCode, threads};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::collections::HashMap;
use std::net::{IpAddr, Shutdown, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};

/// Most clients at one time.
const CLIENTS_MAX: usize = 32;
/// Most clients of one address.
const ADDRESS_CLIENTS_MAX: usize = 8;
/// The time limit for a client to prove that it has a code.
const CODE_LIMIT: Duration = Duration::from_secs(3);
/// The time limit of a client in total.
const CLIENT_LIMIT: Duration = Duration::from_secs(20);
/// Interval of checks for clients' results, in milliseconds.
const POLL_INTERVAL: u16 = 200;

/// A client's number and its outcome.
type Served = (u64, accord_types::Result<Role>);

/// A client that a thread serves.
struct Client {
    address: IpAddr,
    begun: Instant,
    stream: TcpStream,
    has_code: Arc<AtomicBool>,
    is_cut: bool,
}

impl Client {
    /// Shuts the client's connection down, so that its thread ends.
    fn cut(&mut self) {
        self.is_cut = true;
        let _ = self.stream.shutdown(Shutdown::Both);
    }

    fn is_late(&self) -> bool {
        let limit = if self.has_code.load(Ordering::Relaxed) { CLIENT_LIMIT } else { CODE_LIMIT };
        !self.is_cut && self.begun.elapsed() > limit
    }
}

/// The server of a setup's invitations.
pub(super) struct JoinServer {
    pub(super) listener: TcpListener,
    pub(super) open: Arc<Open>,
    pub(super) issuer: Arc<Issuer>,
}

impl JoinServer {
    /// Serves clients until all invitations are used, or the deadline has passed. Returns the unused ones.
    pub(super) fn serve(&self, deadline: Instant) -> Vec<Role> {
        let (sender, results) = channel();
        let mut clients: HashMap<u64, Client> = HashMap::new();
        let mut number = 0;
        while !self.open.roles().is_empty() && Instant::now() < deadline {
            for served in results.try_iter() {
                print(&mut clients, served);
            }
            for client in clients.values_mut().filter(|client| client.is_late()) {
                client.cut();
            }
            if clients.len() >= CLIENTS_MAX {
                std::thread::sleep(Duration::from_millis(u64::from(POLL_INTERVAL)));
                continue;
            }
            let mut wait = [PollFd::new(self.listener.as_fd(), PollFlags::POLLIN)];
            if matches!(poll(&mut wait, PollTimeout::from(POLL_INTERVAL)), Ok(1..))
                && let Ok((stream, from)) = self.listener.accept()
            {
                let address = from.ip().to_canonical();
                // Further connections from an address are closed at once, so that others find a free slot.
                if clients.values().filter(|client| client.address == address).count() < ADDRESS_CLIENTS_MAX {
                    number += 1;
                    let client = self.receive(stream, address, number, sender.clone());
                    clients.extend(client.map(|client| (number, client)));
                }
            }
        }
        self.open.end();
        clients.values_mut().for_each(Client::cut);
        // The threads of the closed clients end.
        drop(sender);
        for served in results {
            print(&mut clients, served);
        }
        self.open.roles()
    }

    /// Serves a client on a thread; `None` if no thread can be started.
    fn receive(&self, stream: TcpStream, address: IpAddr, number: u64, sender: Sender<Served>) -> Option<Client> {
        stream.set_nonblocking(false).ok()?;
        let kept = stream.try_clone().ok()?;
        let has_code = Arc::new(AtomicBool::new(false));
        let (open, issuer, shared) = (self.open.clone(), self.issuer.clone(), has_code.clone());
        let serve = move || {
            let _ = sender.send((number, accept(&stream, &open, &issuer, &shared)));
        };
        threads::spawn("accord setup client", serve).ok()?;
        Some(Client { address, begun: Instant::now(), stream: kept, has_code, is_cut: false })
    }
}

/// Prints a client's outcome.
fn print(clients: &mut HashMap<u64, Client>, (number, result): Served) {
    let Some(client) = clients.remove(&number) else { return };
    let from = client.address;
    match result {
        Ok(role) => show(&format!("done       certificate of {role}, at {from}\n")),
        Err(error) if client.is_cut => {
            show(&format!("!!         a client at {from} is cut off, as it was too slow: {}\n", error.cause()));
        }
        Err(error) if error.code() == ErrorCode::InvalidArgument => {
            show(&format!("!!         a client at {from} is refused: {}\n", error.cause()));
        }
        Err(error) => show(&format!("!!         a client at {from} has failed: {}\n", error.cause())),
    }
}
