//! The lanes of a session and what all its threads share.

use super::ExecutorConfig;
use super::commands;
use super::events::Events;
use super::neighbors::Local;
use super::peers::Peers;
use accord_device::Device;
use accord_fabric::bulk::{Inbox, Outbox};
use accord_fabric::exchange::{Exchange, tell_abandoned};
use accord_fabric::handshake::{FROM_PROGRAM, Hello, Lane};
use accord_fabric::stats::LinkStats;
use accord_fabric::words::{self, Speaker, Word};
use accord_types::{Error, ErrorCode, Result};
use std::net::{Shutdown, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

/// Bulk lanes that one program may open.
const BULK_LANES_MAX: u16 = 16;

/// One session.
pub(super) struct Session {
    pub(super) config: ExecutorConfig,
    pub(super) events: Arc<Events>,
    /// Counts what goes over the program's lanes.
    pub(super) stats: Arc<LinkStats>,
    /// Transfers from the program.
    pub(super) inbox: Arc<Inbox>,
    /// Transfers to the program.
    pub(super) outbox: Arc<Outbox>,
    /// Words to the program.
    pub(super) speaker: Arc<Speaker>,
    pub(super) exchange: Arc<Exchange>,
    pub(super) peers: Arc<Peers>,
    /// Other processes of this machine.
    pub(super) local: Option<Arc<Local>>,
    /// Wakes the thread that receives lanes.
    control: UnixStream,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    ended: bool,
    lanes: Vec<Arc<TcpStream>>,
    devices: Vec<Arc<dyn Device>>,
    commands: Option<JoinHandle<()>>,
}

impl Session {
    pub(super) fn new(config: ExecutorConfig, control: UnixStream) -> Arc<Self> {
        let stats = Arc::<LinkStats>::default();
        let events = Events::new(config.node_name.clone(), stats.clone());
        let inbox = Inbox::new(stats.clone(), true);
        let exchange = Exchange::new();
        let speaker = Speaker::new(&config.node_name, stats.clone());
        exchange.arrived(FROM_PROGRAM, speaker.clone(), inbox.clone());
        let local = Local::new(&config);
        Arc::new(Self {
            peers: Peers::new(&config, exchange.clone(), local.clone()),
            local,
            events,
            inbox,
            outbox: Outbox::new(stats.clone()),
            speaker,
            stats,
            exchange,
            config,
            control,
            state: Mutex::default(),
        })
    }

    /// Takes one of the session's connections. True if it is the command lane.
    pub(super) fn take(self: &Arc<Self>, stream: TcpStream, hello: Hello) -> bool {
        let stream = Arc::new(stream);
        let mut state = self.lock();
        let fits = hello.session == self.config.session
            && !state.ended
            && match hello.lane {
                Lane::Command => state.commands.is_none() && self.peers.set_incarnation(hello.index).is_ok(),
                Lane::Bulk => hello.index < BULK_LANES_MAX,
                Lane::Peer => self.peers.is_for_this(&hello),
                Lane::Words => true,
                Lane::Door => false,
            };
        if !fits {
            let _ = stream.shutdown(Shutdown::Both);
            return false;
        }
        state.lanes.push(stream.clone());
        let session = self.clone();
        match hello.lane {
            Lane::Command => {
                self.events.connect(stream.clone());
                state.commands = spawn("accord-commands", move || commands::serve(&session, &stream));
                state.commands.is_some()
            }
            Lane::Bulk => {
                self.outbox.add(stream.clone());
                spawn("accord-bulk", move || {
                    // Whatever ends it: without its lanes the session is over.
                    let _ = session.inbox.serve(&stream);
                    session.end();
                });
                false
            }
            Lane::Words => {
                self.speaker.connect(stream.clone());
                spawn("accord-words", move || {
                    let _ = session.hear(&stream);
                    session.end();
                });
                false
            }
            Lane::Peer | Lane::Door => {
                self.peers.accept(hello.from, stream);
                false
            }
        }
    }

    /// Hears what the program says of transfers that are pushed to it.
    fn hear(&self, lane: &TcpStream) -> Result<()> {
        words::hear(lane, &self.stats, |word| match word {
            Word::Ready(transfer, place) => {
                if self.exchange.on_ready(transfer, place)? {
                    tell_abandoned(&self.outbox, transfer);
                }
                Ok(())
            }
            Word::Landed(transfer) => self.exchange.on_landed(transfer),
            Word::Refused(transfer, error) => self.exchange.on_refused(transfer, error),
        })
    }

    /// Passes on what devices have printed, before the program learns that they are done.
    pub(super) fn pass_on_printed(&self) {
        /// Standard output.
        const DESCRIPTOR: u8 = 1;
        self.config.devices.printed(&mut |bytes| self.events.output(DESCRIPTOR, bytes));
    }

    /// Keeps a device so that the end of the session ends it. False if the session is over.
    pub(super) fn keep(&self, device: &Arc<dyn Device>) -> bool {
        let mut state = self.lock();
        if !state.ended {
            state.devices.push(device.clone());
        }
        !state.ended
    }

    /// The opposite of [`Session::keep`].
    pub(super) fn release(&self, device: &Arc<dyn Device>) {
        self.lock().devices.retain(|kept| !Arc::ptr_eq(kept, device));
    }

    /// Ends the session, from any thread: lanes first, so that nothing waits for them, then devices.
    pub(super) fn end(&self) {
        let mut state = self.lock();
        if std::mem::replace(&mut state.ended, true) {
            return;
        }
        let lanes = std::mem::take(&mut state.lanes);
        let devices = std::mem::take(&mut state.devices);
        drop(state);
        let over = Error::new(ErrorCode::DeviceShutdown, "the session is over");
        for lane in lanes {
            let _ = lane.shutdown(Shutdown::Both);
        }
        self.exchange.close(&over);
        self.inbox.close();
        self.outbox.close(&over);
        self.peers.close(&over);
        if let Some(local) = &self.local {
            local.close();
        }
        for device in devices {
            device.shutdown();
        }
        let _ = self.control.shutdown(Shutdown::Both);
    }

    /// Waits until no command is worked on any more.
    pub(super) fn join(&self) {
        let commands = self.lock().commands.take();
        if let Some(commands) = commands {
            // A panic there has ended the session as well.
            let _ = commands.join();
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Starts a thread; without one its lane is as good as lost, and dropped with the closure.
pub(super) fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> Option<JoinHandle<()>> {
    std::thread::Builder::new().name(name.to_owned()).spawn(work).ok()
}
