//! The lanes of a session, and the state that all its threads share.

use crate::admission::{Admission, Admitted};
use crate::config::ExecutorConfig;
use crate::events::Events;
use crate::lane_source::LaneSource;
use crate::peers::Peers;
use crate::requested_bytes::TransferRequests;
use crate::same_host::Local;
use crate::use_reports::UseReports;
use accord_device::{Device, WorkerStart};
use accord_fabric::ending::ExecutorEnding;
use accord_fabric::frame::Event;
use accord_fabric::handshake::Introduced;
use accord_fabric::link::{Link, Reader, Unposted};
use accord_fabric::peer::PeerId;
use accord_fabric::transfer::{ControlMessage, Exchange};
use accord_fabric::transport::SharedLane;
use accord_telemetry::log::report_line;
use accord_types::short_lock::{ShortGuard, ShortLock};
use accord_types::spin_policy::SpinPolicy;
use accord_types::{Error, ErrorCode, Result};
use accord_types::{scarce, threads};
use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The state of one session.
pub(crate) struct Session {
    pub(crate) config: ExecutorConfig,
    pub(crate) events: Arc<Events>,
    /// The link to the program.
    pub(crate) link: Arc<Link>,
    pub(crate) exchange: Arc<Exchange>,
    /// Requests for the bytes of copies in.
    pub(crate) asking: Arc<TransferRequests>,
    pub(crate) peers: Arc<Peers>,
    /// Peers on this machine.
    pub(crate) local: Option<Arc<Local>>,
    /// Reports on the session's use of devices.
    pub(crate) uses: UseReports,
    /// Number of positions of streams for which the program waits.
    pub(crate) positions_waited: AtomicUsize,
    /// The recent durations of the program's waits.
    pub(crate) wait_policy: ShortLock<SpinPolicy>,
    /// The source of lanes; closing it wakes the receiving thread.
    control: LaneSource,
    state: ShortLock<Running>,
}

struct Running {
    admission: Admission,
    devices: Vec<Arc<dyn Device>>,
    /// The device that is being started, by its ordinal.
    starting: Option<(u32, Arc<WorkerStart>)>,
    commands: Option<JoinHandle<()>>,
    /// The error of a lane that got no thread before the command lane arrived, on which it is reported.
    unthreaded: Option<io::Error>,
    /// Lanes that may still have to begin TLS.
    introducing: Vec<SharedLane>,
}

impl Session {
    pub(crate) fn new(config: ExecutorConfig, control: LaneSource) -> Arc<Self> {
        let link = Link::new(&config.node_name, PeerId::PROGRAM, Arc::default(), Unposted::Wait);
        let events = Events::new(config.node_name.clone(), link.clone());
        let reported = events.clone();
        let report_over = move |pushes, expects| reported.send(&Event::Exchanged { pushes, expects }, &[]);
        let exchange = Exchange::telling(Box::new(report_over));
        link.join(&exchange);
        let local = Local::new(&config);
        let running = Running {
            admission: Admission::new(config.session, config.node),
            devices: Vec::new(),
            starting: None,
            commands: None,
            unthreaded: None,
            introducing: Vec::new(),
        };
        Arc::new(Self {
            peers: Peers::new(&config, exchange.clone(), events.clone(), local.clone()),
            local,
            events,
            link,
            exchange,
            asking: TransferRequests::new(),
            uses: UseReports::new(config.session, config.report.clone()),
            config,
            positions_waited: AtomicUsize::new(0),
            wait_policy: ShortLock::new(SpinPolicy::long_spin()),
            control,
            state: ShortLock::new(running),
        })
    }

    /// Accepts one of the session's connections. Returns `true` for the command lane, which `serve` serves on a thread of its own. TLS, which may come first,
    /// runs on the lane's own thread.
    pub(crate) fn take(
        self: &Arc<Self>,
        lane: SharedLane,
        client: Introduced,
        serve: impl FnOnce() + Send + 'static,
    ) -> bool {
        let mut state = self.lock();
        let Some(admitted) = state.admission.admit(&client.hello) else {
            lane.shutdown();
            return false;
        };
        if admitted != Admitted::Peer {
            state.introducing.push(lane.clone());
        }
        let session = self.clone();
        // A lack of threads is reported on this lane, even for itself.
        let commands = matches!(admitted, Admitted::Commands(_)).then(|| (lane.clone(), client.clone()));
        let started = match (admitted, state.unthreaded.take()) {
            (_, Some(error)) => Err(error),
            (Admitted::Commands(own), None) => {
                self.peers.set_own(own);
                let commands = move || {
                    session.guard(|| {
                        if matches!(session.join_link(lane, &client), Some(Reader::Records)) {
                            serve();
                        }
                    });
                };
                threads::spawn("accord-commands", commands).map(|thread| state.commands = Some(thread))
            }
            (Admitted::Peer, None) => {
                // Released first: a lane without a thread ends there, and devices may end with its expected transfers.
                drop(state);
                self.peers.accept(client, lane);
                return false;
            }
            (Admitted::Bulk, None) => session.start_reader("accord-bulk", lane, client),
            (Admitted::Control, None) => session.start_reader("accord-control", lane, client),
        };
        let error = match started {
            Ok(()) => return commands.is_some(),
            // The command lane may still arrive after others.
            Err(error) if commands.is_none() && state.commands.is_none() => {
                state.unthreaded = Some(error);
                return false;
            }
            Err(error) => error,
        };
        drop(state);
        if let Some((lane, client)) = commands {
            // There is no thread of its own that would join the lane to the link.
            self.join_link(lane, &client);
        }
        self.unthreaded(&error);
        false
    }

    /// Reads a lane on a thread.
    fn start_reader(self: Arc<Self>, name: &str, lane: SharedLane, client: Introduced) -> io::Result<()> {
        threads::spawn(name, move || self.guard(|| self.read(lane, &client))).map(drop)
    }

    /// Reports to the program that a lane has no thread, and ends the session with all lanes. Otherwise the lane's peer would
    /// wait for an answer.
    fn unthreaded(&self, error: &io::Error) {
        let error = Error::new(ErrorCode::DeviceUnavailable, format!("the executor cannot start a thread: {error}"))
            .remedy(scarce::THREADS);
        // For the agent's log, as the program may be gone.
        report_line(format_args!("accord-node-agent executor: {error}"));
        self.await_records();
        self.events.over(error.node(&self.config.node_name));
        self.end();
    }

    /// Waits a moment for the command lane, which arrives first but whose thread may be slow.
    fn await_records(&self) {
        const MOMENT: Duration = Duration::from_millis(200);
        const PAUSE: Duration = Duration::from_millis(2);
        let end = Instant::now() + MOMENT;
        while self.lock().commands.is_some() && self.link.records().is_none() && Instant::now() < end {
            std::thread::sleep(PAUSE);
        }
    }

    /// Runs the work of a lane's thread, and then ends the session, which needs all its lanes. Reports a panic to the program; other sessions of the
    /// process continue.
    fn guard(&self, work: impl FnOnce()) {
        if let Err(panic) = threads::caught(work) {
            let cause = format!("in the executor, {panic}");
            let error = Error::new(ErrorCode::ImplementationDefined, cause).remedy(threads::REMEDY);
            self.events.over(error.node(&self.config.node_name));
        }
        self.end();
    }

    /// Joins a connection to the link as one of its lanes.
    fn join_link(&self, lane: SharedLane, client: &Introduced) -> Option<Reader> {
        let begun = lane.clone();
        let joined = client.secure(lane).and_then(|lane| self.link.accept(lane, client.hello.purpose));
        self.lock().introducing.retain(|other| !Arc::ptr_eq(other, &begun));
        joined.inspect_err(|_| begun.shutdown()).ok()
    }

    /// Reads a lane of transfers, or of control messages, until it ends.
    fn read(&self, lane: SharedLane, client: &Introduced) {
        let outcome = match self.join_link(lane, client) {
            Some(Reader::Transfers(reader)) => reader.run(),
            Some(Reader::Control(reader)) => reader.run(|message| match message {
                ControlMessage::Ask(given_up) => {
                    self.link.control().alive(self.beats(&given_up));
                    Ok(())
                }
                ControlMessage::Lost(peer, error) => self.peers.lose(peer, &error),
                message => self.exchange.on_control(PeerId::PROGRAM, message, self.link.outbox()),
            }),
            Some(Reader::Records) | None => Ok(()),
        };
        if let Err(error) = outcome {
            self.events.over(error);
        }
    }

    /// Forwards text printed by devices, before the program learns that they are done.
    pub(crate) fn pass_on_printed(&self) {
        /// Standard output.
        const DESCRIPTOR: u8 = 1;
        self.config.devices.printed(&mut |bytes| self.events.output(DESCRIPTOR, bytes));
    }

    /// Returns the heartbeat counts of devices' workers. Ends those that the program gives up.
    fn beats(&self, given_up: &[u32]) -> Vec<(u32, u64)> {
        let state = self.lock();
        let (devices, starting) = (state.devices.clone(), state.starting.clone());
        drop(state);
        let mut beats = Vec::new();
        if let Some((ordinal, start)) = starting {
            if given_up.contains(&ordinal) {
                start.give_up();
            } else if start.waits() {
                // The worker has no heartbeat yet.
                beats.push((ordinal, 0));
            }
        }
        for device in devices {
            let ordinal = device.info().id.ordinal;
            if given_up.contains(&ordinal) {
                device.give_up();
            } else if let Some(beaten) = device.beats() {
                beats.push((ordinal, beaten));
            }
        }
        beats
    }

    /// Records that a device is about to start. Answers to heartbeats then include it, and the end of the session ends it.
    ///
    /// # Errors
    /// Returns an error if the session is over.
    pub(crate) fn begin_start(&self, ordinal: u32) -> Result<Arc<WorkerStart>> {
        let mut state = self.lock();
        if state.admission.has_ended() {
            return Err(over());
        }
        let start = Arc::<WorkerStart>::default();
        state.starting = Some((ordinal, start.clone()));
        Ok(start)
    }

    /// Records that a device has started, or never will.
    pub(crate) fn end_start(&self, start: &Arc<WorkerStart>) {
        self.lock().starting.take_if(|(_, known)| Arc::ptr_eq(known, start));
    }

    /// Keeps a device so that the end of the session ends it. Returns `false` if the session is over.
    pub(crate) fn keep(&self, device: &Arc<dyn Device>) -> bool {
        let mut state = self.lock();
        let ended = state.admission.has_ended();
        if !ended {
            state.devices.push(device.clone());
        }
        !ended
    }

    /// The opposite of [`Session::keep`].
    pub(crate) fn release(&self, device: &Arc<dyn Device>) {
        self.lock().devices.retain(|kept| !Arc::ptr_eq(kept, device));
    }

    /// Reports to the program why the session ends, and gives it a moment to close its lanes itself: the session's other executors then lose their lanes to
    /// this one, and the program should not learn of that first. The agent ends a process for which this takes too long.
    pub(crate) fn report_ending(&self, ending: &ExecutorEnding) {
        const MOMENT: Duration = Duration::from_millis(300);
        const PAUSE: Duration = Duration::from_millis(2);
        if self.link.records().is_none() {
            return;
        }
        self.events.send(&Event::Ending, &ending.encode());
        self.events.finish();
        let end = Instant::now() + MOMENT;
        while !self.lock().admission.has_ended() && Instant::now() < end {
            std::thread::sleep(PAUSE);
        }
    }

    /// Ends the session, from any thread: first lanes, so that no operation waits for them, then devices.
    pub(crate) fn end(&self) {
        let mut state = self.lock();
        if !state.admission.end() {
            return;
        }
        let devices = std::mem::take(&mut state.devices);
        let introducing = std::mem::take(&mut state.introducing);
        let starting = state.starting.take();
        drop(state);
        self.events.end();
        if let Some((_, start)) = starting {
            start.give_up();
        }
        introducing.iter().for_each(|lane| lane.shutdown());
        let over = over();
        self.link.close(&over);
        self.exchange.close(&over);
        self.peers.close(&over);
        if let Some(local) = &self.local {
            local.close();
        }
        for device in devices {
            device.shutdown();
        }
        self.control.close();
    }

    /// Blocks until the command thread has ended.
    pub(crate) fn join(&self) {
        let commands = self.lock().commands.take();
        if let Some(commands) = commands {
            // A panic there has become an error.
            let _ = commands.join();
        }
    }

    fn lock(&self) -> ShortGuard<'_, Running> {
        self.state.lock()
    }
}

/// Returns the error of a session that has ended.
pub(crate) fn over() -> Error {
    Error::new(ErrorCode::DeviceShutdown, "the session is over")
}
