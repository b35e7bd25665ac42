//! An executor in a thread, and a program that speaks the protocol by hand.
#![allow(dead_code)]

use accord_device::fake::{FakeDevice, FakeRegion};
use accord_device::{Device, WorkerStart};
use accord_executor::{DeviceFactory, ExecutorConfig, LaneChannel, Limits, OutputSink, Work, run, run_here};
use accord_fabric::copy_way::CopyWays;
use accord_fabric::frame::{self, Command, Event, FrameReader, Position};
use accord_fabric::handshake::{Hello, Purpose};
use accord_fabric::peer::PeerId;
use accord_fabric::route::LaneTerms;
use accord_fabric::transport::{self, Handover, SharedLane};
use accord_fabric::{Key, ProgramSpec};
use accord_types::{
    AddressRange, DeviceId, Error, ErrorCode, FunctionSpec, NodeId, ObjectSpec, QueueId, Result, Seq, SessionId,
};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

pub(crate) const SESSION: SessionId = SessionId(7);
pub(crate) const SYNC: u32 = QueueId::SYNC.0;
/// The device whose start panics.
pub(crate) const PANICS: u32 = 13;
/// Longer than any step of these tests takes.
const SOON: Duration = Duration::from_secs(20);

/// An executor and its program's command lane.
pub(crate) struct Program {
    pub(crate) lane: SharedLane,
    reader: FrameReader,
    control: Control,
    executor: Option<JoinHandle<()>>,
    made: Arc<Mutex<Vec<Arc<FakeDevice>>>>,
    tickets: u64,
}

/// The agent's end of the channel to the executor.
enum Control {
    OtherProcess(Handover),
    Here(Arc<LaneChannel>),
}

struct Factory {
    memory: u64,
    regions: Vec<(u64, FakeRegion)>,
    made: Arc<Mutex<Vec<Arc<FakeDevice>>>>,
}

impl DeviceFactory for Factory {
    fn create(
        &self,
        _work: &Work,
        ordinal: u32,
        place: Option<AddressRange>,
        _output: OutputSink,
        _: &Arc<WorkerStart>,
    ) -> Result<Arc<dyn Device>> {
        assert_ne!(ordinal, PANICS, "this device panics");
        let device = FakeDevice::at(DeviceId { node: NodeId(1), ordinal }, "h1", self.memory, place);
        for (offset, region) in &self.regions {
            device.register(*offset, "region", region.clone());
        }
        self.made.lock().unwrap().push(device.clone());
        Ok(device)
    }
}

impl Program {
    /// Starts an executor with these limits, and opens its command lane only.
    pub(crate) fn new(limits: Limits) -> Self {
        Self::with_regions(limits, Vec::new())
    }

    pub(crate) fn with_regions(limits: Limits, regions: Vec<(u64, FakeRegion)>) -> Self {
        let (control, theirs) = Handover::pair().unwrap();
        Self::start_with(Control::OtherProcess(control), limits, regions, move |config| {
            let _ = run(theirs, config);
        })
    }

    /// Starts an executor as [`Program::new`], in the agent's process.
    pub(crate) fn here(limits: Limits) -> Self {
        let lanes = Arc::<LaneChannel>::default();
        let control = Control::Here(lanes.clone());
        Self::start_with(control, limits, Vec::new(), move |config| {
            let _ = run_here(&lanes, config);
        })
    }

    fn start_with(
        control: Control,
        limits: Limits,
        regions: Vec<(u64, FakeRegion)>,
        run: impl FnOnce(ExecutorConfig) + Send + 'static,
    ) -> Self {
        let made = Arc::<Mutex<Vec<_>>>::default();
        let config = ExecutorConfig {
            report: Arc::new(|_| ()),
            node: NodeId(1),
            node_name: "h1".to_owned(),
            session: SESSION,
            limits,
            key: Key::random().unwrap(),
            transport: LaneTerms::default(),
            ways: CopyWays::default(),
            devices: Box::new(Factory { memory: 1 << 40, regions, made: made.clone() }),
        };
        let executor = std::thread::spawn(move || run(config));
        let lane = control.connect(Purpose::Command);
        lane.limit(Some(SOON)).unwrap();
        Self { lane, reader: FrameReader::default(), control, executor: Some(executor), made, tickets: 0 }
    }

    /// Starts a program and opens this device. Also returns the first address of the device's range.
    pub(crate) fn open(limits: Limits, device: u32) -> (Self, u64) {
        let mut program = Self::new(limits);
        program.start().unwrap();
        let start = program.ask(|ticket| Command::Open { device, ticket, start: 0, len: 0 }).unwrap();
        (program, start)
    }

    pub(crate) fn lane(&self, purpose: Purpose) -> SharedLane {
        self.lane_of(purpose, PeerId::PROGRAM)
    }

    /// A lane of another executor of the session.
    pub(crate) fn lane_of(&self, purpose: Purpose, from: PeerId) -> SharedLane {
        let lane = self.control.connect_as(purpose, from);
        lane.limit(Some(SOON)).unwrap();
        lane
    }

    pub(crate) fn devices(&self) -> Vec<Arc<FakeDevice>> {
        self.made.lock().unwrap().clone()
    }

    pub(crate) fn start(&mut self) -> Result<u64> {
        let mut payload = Vec::new();
        frame::encode_program(&mut payload, &ProgramSpec { exe: "/bin/app".to_owned(), ..ProgramSpec::default() });
        self.ask_with(|ticket| Command::Start { ticket, trace: false, emulate_gpu: false }, &payload)
    }

    pub(crate) fn send(&self, command: &Command, payload: &[u8]) {
        self.send_all(std::iter::once(*command), payload);
    }

    /// Sends commands with one payload in one write.
    pub(crate) fn send_all(&self, commands: impl Iterator<Item = Command>, payload: &[u8]) {
        let mut bytes = Vec::new();
        for command in commands {
            frame::put(&mut bytes, &command, &[payload]).unwrap();
        }
        // An executor that has had enough closes the lane.
        let _ = self.lane.send(&bytes);
    }

    pub(crate) fn ask(&mut self, command: impl FnOnce(u64) -> Command) -> Result<u64> {
        self.ask_with(command, &[])
    }

    /// Returns the reply to a command. Drops earlier events of queues.
    pub(crate) fn ask_with(&mut self, command: impl FnOnce(u64) -> Command, payload: &[u8]) -> Result<u64> {
        self.tickets += 1;
        let wanted = self.tickets;
        self.send(&command(wanted), payload);
        loop {
            match self.event() {
                Some((Event::Reply { ticket, value, .. }, _)) if ticket == wanted => return Ok(value),
                Some((Event::ReplyFailed { ticket, failure }, text)) if ticket == wanted => {
                    return Err(frame::decode_error(failure, &text));
                }
                Some((Event::Failed { device: u32::MAX, failure, .. }, text)) => {
                    return Err(frame::decode_error(failure, &text));
                }
                Some(_) => {}
                None => return Err(Error::new(ErrorCode::DeviceShutdown, "the executor has closed the lane")),
            }
        }
    }

    /// The next event; none at the lane's end.
    pub(crate) fn event(&mut self) -> Option<(Event, Vec<u8>)> {
        loop {
            if let Some(frame) = self.reader.take::<Event>().unwrap() {
                return Some((frame.record, frame.payload.to_vec()));
            }
            match self.reader.fill(|bytes| self.lane.read(bytes)) {
                Ok(true) => {}
                Ok(false) => return None,
                Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => return None,
                Err(error) => panic!("the executor says nothing: {error}"),
            }
        }
    }

    /// Returns the error of a queue, or of all queues with `u32::MAX`.
    pub(crate) fn failure(&mut self, queue: u32) -> Error {
        loop {
            let (event, text) = self.event().expect("the executor has closed the lane and not said why");
            if let Event::Failed { queue: failed, failure, .. } = event
                && failed == queue
            {
                return frame::decode_error(failure, &text);
            }
        }
    }

    /// Waits for a queue's operation.
    pub(crate) fn wait(&mut self, device: u32, queue: u32, seq: u64) -> Result<u64> {
        let mut payload = Vec::new();
        frame::put_position(&mut payload, Position { device, queue: QueueId(queue), seq: Seq(seq) });
        self.ask_with(|ticket| Command::Wait { ticket }, &payload)
    }

    /// Names the region at this offset.
    pub(crate) fn function(&self, device: u32, function: u32, offset: u64) {
        let spec = FunctionSpec {
            object: ObjectSpec { path: "/bin/app".to_owned(), build_id: "1".to_owned(), executable: true },
            offset,
            name: "region".to_owned(),
            kernel: None,
        };
        let mut payload = Vec::new();
        frame::encode_function(&mut payload, &spec);
        self.send(&Command::Function { device, function, offset, executable: true }, &payload);
    }

    /// The agent ends the executor.
    pub(crate) fn end(&self) {
        self.control.end();
    }

    /// Checks that the session and the lane end within the time limit.
    pub(crate) fn assert_ended(mut self) {
        while self.event().is_some() {}
        self.control.end();
        self.executor.take().unwrap().join().expect("the executor panicked");
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        self.control.end();
        if let Some(executor) = self.executor.take() {
            let ended = executor.join();
            if !std::thread::panicking() {
                ended.expect("the executor panicked");
            }
        }
    }
}

impl Control {
    fn connect(&self, purpose: Purpose) -> SharedLane {
        self.connect_as(purpose, PeerId::PROGRAM)
    }

    fn connect_as(&self, purpose: Purpose, from: PeerId) -> SharedLane {
        let (here, there) = transport::pair().unwrap();
        let client = Hello::new(purpose, SESSION, 0, from).into();
        match self {
            Self::OtherProcess(control) => control.send(&*there, &client).unwrap(),
            Self::Here(lanes) => lanes.send(there, client).unwrap(),
        }
        here
    }

    fn end(&self) {
        match self {
            Self::OtherProcess(control) => control.shutdown_writes(),
            Self::Here(lanes) => lanes.close(),
        }
    }
}
