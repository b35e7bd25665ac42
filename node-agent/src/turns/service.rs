//! Gives out turns to the processes that drive the node's devices, over a lane to each.

use super::device_turns::{DeviceTurns, Hold, Member};
use super::suspend_room::{ProcessRoom, SuspendRoom};
use super::weights::Weights;
use accord_fabric::transport::{SharedLane, local_pair};
use accord_fabric::turn_messages::{HoldTurn, MemoryBound, TurnChannel, TurnOrder, TurnRequest};
use accord_types::short_lock::{ShortGuard, ShortLock};
use accord_types::{Error, ErrorCode, Result, SessionId, SessionKey, SuspendRefusal, scarce, threads};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::{Arc, Condvar};
use std::time::{Duration, Instant};

/// Most processes that take turns: one for each session's executor, and as many programs that drive the node's devices
/// themselves.
pub(crate) const PROCESSES_MAX: usize = 2_048;
/// Most of one session: its executor, its program, and one of a lost connection that is being closed.
const PROCESSES_OF_SESSION_MAX: usize = 3;
/// The interval for checking whether a program's session goes on.
const SESSION_CHECK: Duration = Duration::from_secs(5);

/// The turns on all devices of the node.
#[derive(Debug)]
pub(crate) struct TurnService {
    began: Instant,
    pub(super) table: ShortLock<TurnTable>,
    /// Notified when the earliest deadline has changed.
    changed: Condvar,
    /// Notified when a process has answered an order, or has ended.
    pub(super) answered: Condvar,
    /// The host memory of suspended work.
    pub(super) room: SuspendRoom,
}

#[derive(Debug, Default)]
pub(super) struct TurnTable {
    devices: BTreeMap<u32, DeviceTurns>,
    pub(super) processes: BTreeMap<Member, Process>,
    /// Jobs whose processes are suspended, also those that begin now.
    pub(super) suspended: BTreeSet<SessionKey>,
    /// Number of processes so far.
    opened: u64,
    timer: Timer,
}

/// The thread that takes back turns which are not returned.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Timer {
    #[default]
    NotStarted,
    /// It sleeps until a turn may be overdue; `None`: until it is woken.
    Until(Option<Duration>),
}

/// A process that drives devices.
#[derive(Debug)]
pub(super) struct Process {
    pub(super) session: SessionId,
    pub(super) job: Option<SessionKey>,
    pub(super) channel: Arc<TurnChannel>,
    weights: Weights,
    pub(super) kind: ProcessKind,
    /// The host memory that its suspended work takes.
    pub(super) room: ProcessRoom,
    pub(super) answer: OrderAnswer,
}

/// The kind of a process that drives devices.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ProcessKind {
    Executor,
    /// A program that drives devices itself.
    Program,
}

/// The answer of a process to an order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum OrderAnswer {
    NotAsked,
    Awaited,
    /// The work is suspended, and takes these bytes of host memory.
    Suspended(u64),
    /// The work goes on.
    Resumed,
    Refused(SuspendRefusal),
}

/// The turns of one process, which end when this is dropped.
#[derive(Debug)]
pub(crate) struct ProcessTurns {
    service: Arc<TurnService>,
    member: Member,
    channel: Arc<TurnChannel>,
}

impl Default for TurnService {
    fn default() -> Self {
        Self::new(SuspendRoom::default())
    }
}

impl TurnService {
    /// Creates the service without processes.
    pub(crate) fn new(room: SuspendRoom) -> Self {
        let (changed, answered) = (Condvar::new(), Condvar::new());
        Self { began: Instant::now(), table: ShortLock::default(), changed, answered, room }
    }

    /// Opens a lane for a session's executor, which takes turns on the devices of `weights`; on others its regions run at any
    /// time. Returns the executor's end, too; `None` without turns and without a job, whose work could be suspended.
    ///
    /// # Errors
    /// Returns `acc_error_system` if the system has no socket or thread, or there are too many processes.
    pub(crate) fn open(
        self: &Arc<Self>,
        session: SessionId,
        job: Option<SessionKey>,
        weights: Weights,
    ) -> Result<Option<(ProcessTurns, SharedLane)>> {
        if weights.is_empty() && job.is_none() {
            return Ok(None);
        }
        let failed = |error: io::Error| {
            let cause = format!("cannot give an executor turns on devices: {error}");
            Error::new(ErrorCode::System, cause).remedy(scarce::remedy(&error).unwrap_or(scarce::THREADS))
        };
        let (lane, theirs) = local_pair().map_err(failed)?;
        let turns = self.add(session, job, lane, weights, ProcessKind::Executor)?;
        let (service, member, channel) = (self.clone(), turns.member, turns.channel.clone());
        // Without a thread, dropping `turns` removes the process.
        threads::spawn("accord-turns", move || service.serve(member, &channel, || true)).map_err(failed)?;
        Ok(Some((turns, theirs)))
    }

    /// Serves a program that drives the node's devices itself, until its lane ends or `goes_on` returns `false`. A program
    /// without weights runs regions at any time. One without a job is not served then.
    ///
    /// # Errors
    /// Returns `acc_error_system` if there are too many processes.
    pub(crate) fn serve_program(
        self: &Arc<Self>,
        session: SessionId,
        job: Option<SessionKey>,
        lane: SharedLane,
        weights: Weights,
        goes_on: impl Fn() -> bool,
    ) -> Result<()> {
        if weights.is_empty() && job.is_none() || lane.limit(Some(SESSION_CHECK)).is_err() {
            lane.shutdown();
            return Ok(());
        }
        let turns = self.add(session, job, lane, weights, ProcessKind::Program)?;
        self.serve(turns.member, &turns.channel, goes_on);
        Ok(())
    }

    fn add(
        self: &Arc<Self>,
        session: SessionId,
        job: Option<SessionKey>,
        lane: SharedLane,
        weights: Weights,
        kind: ProcessKind,
    ) -> Result<ProcessTurns> {
        self.start_timer().map_err(|error| Error::new(ErrorCode::System, format!("cannot start a thread: {error}")))?;
        let channel = Arc::new(TurnChannel::new(lane));
        let mut table = self.table.lock();
        let of_session = table.processes.values().filter(|process| process.session == session).count();
        if table.processes.len() >= PROCESSES_MAX || of_session >= PROCESSES_OF_SESSION_MAX {
            drop(table);
            channel.close();
            return Err(Error::new(ErrorCode::System, "too many processes take turns on the node's devices"));
        }
        table.opened += 1;
        let member = Member(table.opened);
        let (room, answer) = (ProcessRoom::None, OrderAnswer::NotAsked);
        let process = Process { session, job, channel: channel.clone(), weights, kind, room, answer };
        table.processes.insert(member, process);
        let is_suspended = job.is_some_and(|job| table.suspended.contains(&job));
        drop(table);
        if is_suspended && channel.send_order(TurnOrder::Suspend(MemoryBound::Unbounded)).is_err() {
            channel.close();
        }
        Ok(ProcessTurns { service: self.clone(), member, channel })
    }

    /// Follows the requests of a process until its lane ends.
    fn serve(&self, member: Member, channel: &TurnChannel, goes_on: impl Fn() -> bool) {
        while goes_on()
            && let Ok(request) = channel.receive_request(&goes_on)
        {
            self.apply(member, request);
        }
        channel.close();
        self.end(member);
    }

    fn apply(&self, member: Member, request: TurnRequest) {
        let ordinal = match request {
            TurnRequest::Join { ordinal, .. }
            | TurnRequest::Wants { ordinal }
            | TurnRequest::Returns { ordinal, .. }
            | TurnRequest::Leave { ordinal } => ordinal,
            TurnRequest::Suspended { bytes } => return self.has_answered(member, OrderAnswer::Suspended(bytes)),
            TurnRequest::Resumed => return self.has_answered(member, OrderAnswer::Resumed),
            TurnRequest::Refused(why) => return self.has_answered(member, OrderAnswer::Refused(why)),
            TurnRequest::Needs { bytes } => return self.reserve(member, bytes),
        };
        self.change(|table, now, out| {
            let Some(process) = table.processes.get(&member) else { return };
            let Some(&weight) = process.weights.get(&ordinal) else {
                if let TurnRequest::Join { number: join, .. } = request {
                    out.push((ordinal, Hold { member, join, turn: 1, limit: None }));
                }
                return;
            };
            let (device, mut holds) = (table.devices.entry(ordinal).or_default(), Vec::new());
            match request {
                TurnRequest::Join { number, .. } => device.join(now, member, number, weight, &mut holds),
                TurnRequest::Wants { .. } => device.wants(now, member, &mut holds),
                TurnRequest::Returns { turn, next, .. } => device.returns(now, member, turn, next, &mut holds),
                TurnRequest::Leave { .. } => device.leave(now, member, &mut holds),
                TurnRequest::Suspended { .. }
                | TurnRequest::Resumed
                | TurnRequest::Refused(_)
                | TurnRequest::Needs { .. } => {}
            }
            out.extend(holds.into_iter().map(|hold| (ordinal, hold)));
        });
    }

    /// Removes a process.
    fn end(&self, member: Member) {
        self.change(|table, now, out| {
            table.processes.remove(&member);
            for (ordinal, device) in &mut table.devices {
                let mut holds = Vec::new();
                device.leave(now, member, &mut holds);
                out.extend(holds.into_iter().map(|hold| (*ordinal, hold)));
            }
        });
        self.answered.notify_all();
    }

    /// Applies a change, and sends its messages.
    fn change(&self, what: impl FnOnce(&mut TurnTable, Duration, &mut Vec<(u32, Hold)>)) {
        let (mut table, mut out) = (self.table.lock(), Vec::new());
        what(&mut table, self.began.elapsed(), &mut out);
        let has_earlier = table.is_timer_late();
        let messages = table.addressed(out);
        drop(table);
        if has_earlier {
            self.changed.notify_all();
        }
        send(messages);
    }

    /// Starts the thread that takes back turns which are not returned, once.
    fn start_timer(self: &Arc<Self>) -> io::Result<()> {
        let mut table = self.table.lock();
        if table.timer != Timer::NotStarted {
            return Ok(());
        }
        table.timer = Timer::Until(None);
        drop(table);
        let service = self.clone();
        let started = threads::spawn("accord-overdue", move || {
            loop {
                service.take_back();
            }
        });
        started.map(drop).inspect_err(|_| self.table.lock().timer = Timer::NotStarted)
    }

    /// Waits for the next deadline, and takes back the turns that are overdue.
    fn take_back(&self) {
        let mut table = self.table.lock();
        let next = table.next_deadline();
        table.timer = Timer::Until(next);
        let left = next.map(|next| next.saturating_sub(self.began.elapsed()));
        let is_in_time = |table: &mut TurnTable| !table.is_timer_late();
        match left {
            None => drop(ShortGuard::wait_while(table, &self.changed, is_in_time)),
            Some(left) if !left.is_zero() => {
                drop(ShortGuard::wait_timeout_while(table, &self.changed, left, is_in_time));
            }
            Some(_) => {
                let (now, mut out) = (self.began.elapsed(), Vec::new());
                for (ordinal, device) in &mut table.devices {
                    let mut holds = Vec::new();
                    device.tick(now, &mut holds);
                    out.extend(holds.into_iter().map(|hold| (*ordinal, hold)));
                }
                let messages = table.addressed(out);
                drop(table);
                send(messages);
            }
        }
    }
}

impl TurnTable {
    fn next_deadline(&self) -> Option<Duration> {
        self.devices.values().filter_map(DeviceTurns::next_deadline).min()
    }

    /// Whether the timer sleeps past the next deadline.
    fn is_timer_late(&self) -> bool {
        let Timer::Until(until) = self.timer else { return false };
        self.next_deadline().is_some_and(|next| until.is_none_or(|until| next < until))
    }

    /// Returns the messages with the channels of their processes.
    fn addressed(&self, holds: Vec<(u32, Hold)>) -> Vec<(Arc<TurnChannel>, HoldTurn)> {
        let address = |(ordinal, Hold { member, join, turn, limit })| {
            Some((self.processes.get(&member)?.channel.clone(), HoldTurn { ordinal, join, turn, limit }))
        };
        holds.into_iter().filter_map(address).collect()
    }
}

fn send(messages: Vec<(Arc<TurnChannel>, HoldTurn)>) {
    for (channel, hold) in messages {
        if channel.send_order(TurnOrder::Hold(hold)).is_err() {
            // The process has ended, or does not read: its lane's reader removes it.
            channel.close();
        }
    }
}

impl Drop for ProcessTurns {
    fn drop(&mut self) {
        self.channel.close();
        self.service.end(self.member);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::turns::device_turns::Weight;
    use accord_types::NextTurn;

    fn process(service: &Arc<TurnService>, milli: u32) -> (ProcessTurns, TurnChannel) {
        let session = SessionId(milli.into());
        let (turns, lane) = service.open(session, None, [(0, Weight { milli, job: None })].into()).unwrap().unwrap();
        (turns, TurnChannel::new(lane))
    }

    fn hold_of(process: &TurnChannel) -> HoldTurn {
        match process.receive_order().unwrap() {
            TurnOrder::Hold(hold) => hold,
            order => panic!("no turn: {order:?}"),
        }
    }

    const JOIN: TurnRequest = TurnRequest::Join { ordinal: 0, number: 4 };
    const WANTS: TurnRequest = TurnRequest::Wants { ordinal: 0 };

    #[test]
    fn a_turn_passes_from_process_to_process() {
        let service = Arc::<TurnService>::default();
        let ((_one, first), (_other, second)) = (process(&service, 250), process(&service, 750));
        first.send_request(JOIN).unwrap();
        let held = hold_of(&first);
        assert_eq!((held.join, held.limit), (4, None), "it is alone");
        second.send_request(JOIN).unwrap();
        second.send_request(WANTS).unwrap();
        let shortened = hold_of(&first);
        assert!(shortened.turn == held.turn && shortened.limit.is_some());
        first.send_request(TurnRequest::Returns { ordinal: 0, turn: held.turn, next: NextTurn::NotWanted }).unwrap();
        let next = hold_of(&second);
        assert!(next.turn > held.turn && next.limit.is_none(), "{next:?}");
        // Without a weight for the device, a process may always run regions.
        second.send_request(TurnRequest::Join { ordinal: 1, number: 5 }).unwrap();
        assert_eq!(hold_of(&second), HoldTurn { ordinal: 1, join: 5, turn: 1, limit: None });
    }

    #[test]
    fn a_silent_or_ended_holder_loses_its_turn() {
        let service = Arc::<TurnService>::default();
        let ((_one, first), (_other, second)) = (process(&service, 500), process(&service, 400));
        let (third_turns, third) = process(&service, 100);
        first.send_request(JOIN).unwrap();
        hold_of(&first);
        second.send_request(JOIN).unwrap();
        second.send_request(WANTS).unwrap();
        // The first process says nothing.
        let held = hold_of(&second);
        assert_eq!(held.limit, None);
        third.send_request(JOIN).unwrap();
        third.send_request(WANTS).unwrap();
        assert_eq!(hold_of(&second).turn, held.turn);
        second.close();
        assert!(hold_of(&third).turn > held.turn);
        drop(third_turns);
        assert!(third.receive_order().is_err());
        assert_eq!(service.table.lock().processes.len(), 1);
    }

    #[test]
    fn a_program_takes_turns_while_its_session_goes_on() {
        let service = Arc::<TurnService>::default();
        let (ours, theirs) = local_pair().unwrap();
        let weights: Weights = [(0, Weight { milli: 500, job: None })].into();
        let is_open = std::sync::atomic::AtomicBool::new(true);
        std::thread::scope(|scope| {
            let program = TurnChannel::new(theirs);
            let served = scope.spawn(|| {
                let goes_on = || is_open.load(std::sync::atomic::Ordering::Relaxed);
                service.serve_program(SessionId(1), None, ours, weights.clone(), goes_on)
            });
            program.send_request(JOIN).unwrap();
            assert_eq!(hold_of(&program).limit, None);
            let lanes: Vec<_> = (0..3).map(|_| service.open(SessionId(1), None, weights.clone())).collect();
            assert!(lanes[1].is_ok() && lanes[2].is_err(), "the session has one process too many");
            is_open.store(false, std::sync::atomic::Ordering::Relaxed);
            program.send_request(WANTS).unwrap();
            assert!(program.receive_order().is_err(), "the session has ended");
            assert!(served.join().unwrap().is_ok());
        });
        let (ours, theirs) = local_pair().unwrap();
        service.serve_program(SessionId(2), None, ours, Weights::new(), || true).unwrap();
        assert!(TurnChannel::new(theirs).receive_order().is_err(), "it shares no device");
    }
}
