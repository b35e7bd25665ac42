//! The thread that keeps a device's turn: it asks the agent for one when a region waits, and returns it.

use super::words::{Gate, TurnWords};
use crate::kept_memory::KeptMemory;
use accord_types::SuspendRefusal;
use accord_types::short_lock::ShortLock;
use accord_types::{NextTurn, threads};
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Longest time until the end of regions is noticed if its wake-up is lost.
const RUNNING_CHECK: Duration = Duration::from_millis(2);
/// Time without a region after which a turn ends early. A program that waits for each region launches the next one sooner.
const IDLE_MIN: Duration = Duration::from_micros(300);
/// Time after a turn that had an end in which launches on a device that can't hold back what it has got are held back on the
/// host: another process may want a turn again. Longer than the pauses of a program that computes each few seconds.
const CALM: Duration = Duration::from_secs(60);

/// The agent, as the keepers of a process's devices see it. Sending does not fail: if the agent has ended, it calls
/// [`TurnKeeper::release`].
pub trait TurnAgent: Send + Sync {
    /// Registers the keeper of a device that has started; its regions wait for a turn.
    fn join(&self, ordinal: u32, keeper: &Arc<TurnKeeper>);

    /// Reports that a region waits.
    fn wants(&self, ordinal: u32);

    /// Returns a turn.
    fn returns(&self, ordinal: u32, turn: u64, next: NextTurn);

    /// Reports that the keeper's device has stopped. The device may have started anew with another keeper.
    fn leave(&self, ordinal: u32, keeper: &Arc<TurnKeeper>);
}

/// The activity of a device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Activity {
    /// A region runs.
    Running,
    /// No region runs, but some wait or may follow at once.
    Ready,
    /// There is nothing to run.
    Idle,
}

/// A device whose regions pass a gate.
pub trait GatedDevice: Send + Sync {
    fn words(&self) -> &TurnWords;

    fn activity(&self) -> Activity;

    /// Holds all work back that callers put in from now on, until [`GatedDevice::let_work`].
    ///
    /// # Errors
    /// Returns the reason if that is impossible.
    fn hold_work(&self) -> Result<(), SuspendRefusal>;

    /// Waits for the end of the work that was put in before [`GatedDevice::hold_work`]. Work of the process's other devices may still
    /// use the memory.
    ///
    /// # Errors
    /// Returns the reason if it does not end in time.
    fn settle(&self, until: Instant) -> Result<(), SuspendRefusal>;

    /// Ends all uses of the device's memory, once the work of all of the process's devices has ended. Returns the bytes of host memory
    /// that [`GatedDevice::save`] takes.
    ///
    /// # Errors
    /// Returns the reason if a use does not end in time, or the memory can't leave the device.
    fn end_uses(&self, until: Instant) -> Result<u64, SuspendRefusal>;

    /// Moves the device's memory to host memory, that of `kept` as far as it suffices.
    ///
    /// # Errors
    /// Returns the reason if that is impossible. The memory is as before then.
    fn save(&self, kept: &mut KeptMemory) -> Result<(), SuspendRefusal>;

    /// Brings the device's memory back to its addresses.
    ///
    /// # Errors
    /// Returns the reason if that is impossible. The memory is in host memory then.
    fn restore(&self) -> Result<(), SuspendRefusal>;

    /// Lets callers put work in again.
    fn let_work(&self);

    /// Returns how often [`GatedDevice::activity`] must be asked, if the device does not ring the doorbell. Its driver then has
    /// launches that can't be held back any more.
    fn query_interval(&self) -> Option<Duration> {
        None
    }
}

/// Keeps the turns of one device.
pub struct TurnKeeper {
    ordinal: u32,
    device: Box<dyn GatedDevice>,
    phase: ShortLock<Phase>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    /// Without a turn since that of this number.
    Without {
        last: u64,
        asked: bool,
    },
    Holding {
        turn: u64,
        until: Option<Instant>,
    },
    Returning {
        turn: u64,
    },
    /// No agent gives turns.
    Released,
    /// The device has stopped.
    Ended,
}

/// Observations of the keeper's thread.
#[derive(Default)]
struct Pace {
    /// From when on launches enter the driver's stream at once.
    calm_from: Option<Instant>,
    /// Since when the device is idle, and the doorbell then.
    idle_since: Option<(Instant, u32)>,
}

impl Pace {
    /// Returns the time after which the turn ends early if nothing happens.
    fn idle(&mut self, is_idle: bool, doorbell: u32) -> Option<Duration> {
        if !is_idle {
            self.idle_since = None;
            return None;
        }
        let since = match self.idle_since {
            Some((since, rung)) if rung == doorbell => since,
            // It has run a region since.
            _ => self.idle_since.insert((Instant::now(), doorbell)).0,
        };
        Some(IDLE_MIN.saturating_sub(since.elapsed()))
    }
}

/// The keeper's next step.
enum Step {
    /// Sleeps until the doorbell rings.
    Sleep(Option<Duration>),
    Ask,
    Return {
        turn: u64,
        next: NextTurn,
    },
    Again,
    End,
}

impl TurnKeeper {
    /// Closes the device's gate, joins at the agent, and starts the thread.
    ///
    /// # Errors
    /// Returns the system's error if there is no thread. The gate is open then.
    pub fn start(ordinal: u32, device: Box<dyn GatedDevice>, agent: Arc<dyn TurnAgent>) -> io::Result<Arc<Self>> {
        device.words().set(Gate::Closed);
        let phase = ShortLock::new(Phase::Without { last: 0, asked: false });
        let this = Arc::new(Self { ordinal, device, phase });
        let keeper = this.clone();
        let started = threads::spawn("accord-turn", move || keeper.run(&*agent));
        started.inspect_err(|_| this.release())?;
        Ok(this)
    }

    /// The agent's message: regions may run in this turn until `limit` is over, or until there are none; without a limit
    /// they may run until another message.
    pub fn hold(&self, turn: u64, limit: Option<Duration>) {
        let until = limit.and_then(|limit| Instant::now().checked_add(limit));
        let mut phase = self.phase.lock();
        *phase = match *phase {
            Phase::Without { last, .. } if turn > last => Phase::Holding { turn, until },
            // An agent that is back answers before the keeper holds regions back.
            Phase::Released => Phase::Holding { turn, until },
            Phase::Holding { turn: held, until: known } if turn == held => {
                let until = until.map(|until| known.map_or(until, |known| until.min(known))).or(known);
                Phase::Holding { turn, until }
            }
            // The agent has taken the earlier turn back.
            Phase::Holding { turn: held, .. } | Phase::Returning { turn: held } if turn > held => {
                Phase::Holding { turn, until }
            }
            other => other,
        };
        drop(phase);
        self.device.words().ring();
    }

    /// Holds regions back again until the agent gives a turn, because there is an agent again.
    pub fn hold_back(&self) {
        if self.change(Phase::Released, Phase::Without { last: 0, asked: false }) {
            self.device.words().ring();
        }
    }

    /// Lets all regions run until [`TurnKeeper::hold_back`], because there is no agent.
    pub fn release(&self) {
        self.change_unless_ended(Phase::Released);
        self.device.words().set(Gate::Open);
        self.device.words().ring();
    }

    /// Ends the keeper, as the device has stopped.
    pub fn end(&self) {
        self.change_unless_ended(Phase::Ended);
        // The thread may still be joining at the agent.
        self.device.words().set(Gate::Open);
        self.device.words().ring();
    }

    /// Returns the device, unless it has stopped.
    pub(super) fn suspendable(&self) -> Option<&dyn GatedDevice> {
        (!self.has_ended()).then_some(&*self.device)
    }

    /// Whether the keeper's device has stopped.
    pub fn has_ended(&self) -> bool {
        *self.phase.lock() == Phase::Ended
    }

    fn change_unless_ended(&self, to: Phase) {
        let mut phase = self.phase.lock();
        if *phase != Phase::Ended {
            *phase = to;
        }
    }

    /// Changes the phase unless another thread has changed it meanwhile.
    fn change(&self, from: Phase, to: Phase) -> bool {
        let mut phase = self.phase.lock();
        let is_same = *phase == from;
        if is_same {
            *phase = to;
        }
        is_same
    }

    fn run(self: Arc<Self>, agent: &dyn TurnAgent) {
        agent.join(self.ordinal, &self);
        let mut pace = Pace::default();
        loop {
            let seen = self.device.words().doorbell();
            match self.step(seen, &mut pace) {
                Step::Sleep(limit) => self.device.words().await_doorbell(seen, limit),
                Step::Ask => agent.wants(self.ordinal),
                Step::Return { turn, next } => agent.returns(self.ordinal, turn, next),
                Step::Again => {}
                Step::End => return agent.leave(self.ordinal, &self),
            }
        }
    }

    /// Returns the next step. The doorbell was `seen` before.
    fn step(&self, seen: u32, pace: &mut Pace) -> Step {
        let phase = *self.phase.lock();
        let words = self.device.words();
        match phase {
            Phase::Without { last, asked } => {
                words.set(Gate::Closed);
                if asked || !words.parked() {
                    return Step::Sleep(None);
                }
                if self.change(phase, Phase::Without { last, asked: true }) { Step::Ask } else { Step::Again }
            }
            Phase::Holding { until: None, .. } => {
                let left = pace.calm_from.map(|from| from.saturating_duration_since(Instant::now()));
                if let Some(left) = left.filter(|left| !left.is_zero()) {
                    words.set(Gate::Limited);
                    return Step::Sleep(Some(left));
                }
                words.set(Gate::Open);
                Step::Sleep(None)
            }
            Phase::Holding { turn, until: Some(until) } => {
                words.set(Gate::Limited);
                let interval = self.device.query_interval();
                pace.calm_from = interval.and_then(|_| Instant::now().checked_add(CALM));
                // Asked after the gate is set, since the device may have become idle before it knew that this matters.
                let is_idle = self.device.activity() == Activity::Idle && !words.parked();
                let idle = pace.idle(is_idle, seen);
                let left = until.saturating_duration_since(Instant::now());
                if left.is_zero() || idle.is_some_and(|idle| idle.is_zero()) {
                    self.change(phase, Phase::Returning { turn });
                    return Step::Again;
                }
                Step::Sleep([idle, interval, Some(left)].into_iter().flatten().min())
            }
            Phase::Returning { turn } => {
                words.set(Gate::Closed);
                let activity = self.device.activity();
                if activity == Activity::Running {
                    return Step::Sleep(Some(self.device.query_interval().unwrap_or(RUNNING_CHECK)));
                }
                let wants = words.parked() || activity == Activity::Ready;
                if self.change(phase, Phase::Without { last: turn, asked: wants }) {
                    Step::Return { turn, next: NextTurn::wanted_if(wants) }
                } else {
                    Step::Again
                }
            }
            Phase::Released => {
                words.set(Gate::Open);
                Step::Sleep(None)
            }
            Phase::Ended => {
                words.set(Gate::Open);
                Step::End
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::mpsc::{Receiver, Sender, channel};

    #[derive(Debug, PartialEq, Eq)]
    enum Said {
        Join(u32),
        Wants(u32),
        Returns(u32, u64, NextTurn),
        Leave(u32),
    }

    struct Agent(Sender<Said>);

    impl TurnAgent for Agent {
        fn join(&self, ordinal: u32, _keeper: &Arc<TurnKeeper>) {
            self.0.send(Said::Join(ordinal)).unwrap();
        }

        fn wants(&self, ordinal: u32) {
            self.0.send(Said::Wants(ordinal)).unwrap();
        }

        fn returns(&self, ordinal: u32, turn: u64, next: NextTurn) {
            self.0.send(Said::Returns(ordinal, turn, next)).unwrap();
        }

        fn leave(&self, ordinal: u32, _keeper: &Arc<TurnKeeper>) {
            self.0.send(Said::Leave(ordinal)).unwrap();
        }
    }

    #[derive(Default)]
    struct Fake {
        words: TurnWords,
        runs: AtomicBool,
        ready: AtomicBool,
    }

    impl GatedDevice for Arc<Fake> {
        fn words(&self) -> &TurnWords {
            &self.words
        }

        fn hold_work(&self) -> Result<(), SuspendRefusal> {
            Ok(())
        }

        fn settle(&self, _until: Instant) -> Result<(), SuspendRefusal> {
            Ok(())
        }

        fn end_uses(&self, _until: Instant) -> Result<u64, SuspendRefusal> {
            Ok(0)
        }

        fn save(&self, _kept: &mut KeptMemory) -> Result<(), SuspendRefusal> {
            Ok(())
        }

        fn restore(&self) -> Result<(), SuspendRefusal> {
            Ok(())
        }

        fn let_work(&self) {}

        fn activity(&self) -> Activity {
            match (self.runs.load(Ordering::SeqCst), self.ready.load(Ordering::SeqCst)) {
                (true, _) => Activity::Running,
                (false, true) => Activity::Ready,
                (false, false) => Activity::Idle,
            }
        }
    }

    fn started() -> (Arc<Fake>, Arc<TurnKeeper>, Receiver<Said>) {
        let (said, heard) = channel();
        let device = Arc::<Fake>::default();
        let keeper = TurnKeeper::start(3, Box::new(device.clone()), Arc::new(Agent(said))).unwrap();
        assert_eq!(heard.recv().unwrap(), Said::Join(3));
        (device, keeper, heard)
    }

    /// Starts a region on a thread of its own, which reports its start.
    fn launch(device: &Arc<Fake>) -> Receiver<()> {
        let (device, (begins, begun)) = (device.clone(), channel());
        threads::spawn("accord-launch", move || {
            device.words.park();
            begins.send(()).unwrap();
        })
        .unwrap();
        begun
    }

    #[test]
    fn a_region_waits_for_a_turn_that_is_returned_once_no_region_runs() {
        let (device, keeper, heard) = started();
        let begun = launch(&device);
        assert_eq!(heard.recv().unwrap(), Said::Wants(3));
        assert!(begun.try_recv().is_err() && device.words.is_closed());
        device.runs.store(true, Ordering::SeqCst);
        keeper.hold(5, None);
        begun.recv().unwrap();
        // Another process waits.
        keeper.hold(5, Some(Duration::ZERO));
        while !device.words.is_closed() {
            std::thread::yield_now();
        }
        assert!(heard.try_recv().is_err(), "a region runs");
        device.ready.store(true, Ordering::SeqCst);
        device.runs.store(false, Ordering::SeqCst);
        device.words.region_ended();
        assert_eq!(heard.recv().unwrap(), Said::Returns(3, 5, NextTurn::Wanted));
        // Messages about earlier turns change nothing.
        keeper.hold(5, None);
        keeper.hold(6, None);
        launch(&device).recv().unwrap();
        keeper.end();
        assert_eq!(heard.recv().unwrap(), Said::Leave(3));
    }

    #[test]
    fn a_later_turn_replaces_the_held_one() {
        let (device, keeper, heard) = started();
        device.runs.store(true, Ordering::SeqCst);
        keeper.hold(1, Some(Duration::ZERO));
        // The agent has taken turn 1 back, whose region still runs.
        keeper.hold(2, None);
        launch(&device).recv().unwrap();
        keeper.hold(3, Some(Duration::ZERO));
        device.runs.store(false, Ordering::SeqCst);
        device.words.region_ended();
        assert_eq!(heard.recv().unwrap(), Said::Returns(3, 3, NextTurn::NotWanted));
        keeper.end();
        assert_eq!(heard.recv().unwrap(), Said::Leave(3));
        assert!(keeper.has_ended());
    }

    #[test]
    fn a_turn_with_a_limit_ends_early_without_work() {
        let (device, keeper, heard) = started();
        device.ready.store(true, Ordering::SeqCst);
        keeper.hold(1, Some(Duration::from_secs(1_000)));
        launch(&device).recv().unwrap();
        device.ready.store(false, Ordering::SeqCst);
        device.words.becomes_idle();
        assert_eq!(heard.recv().unwrap(), Said::Returns(3, 1, NextTurn::NotWanted));
        keeper.end();
        assert_eq!(heard.recv().unwrap(), Said::Leave(3));
    }

    #[test]
    fn without_an_agent_regions_run_until_there_is_one_again() {
        let (device, keeper, heard) = started();
        let begun = launch(&device);
        assert_eq!(heard.recv().unwrap(), Said::Wants(3));
        keeper.hold(7, None);
        begun.recv().unwrap();
        keeper.release();
        launch(&device).recv().unwrap();
        // Another agent, which numbers turns anew.
        keeper.hold_back();
        let begun = await_closed(&device);
        assert_eq!(heard.recv().unwrap(), Said::Wants(3));
        assert!(begun.try_recv().is_err());
        keeper.hold(1, None);
        begun.recv().unwrap();
        keeper.end();
        assert_eq!(heard.recv().unwrap(), Said::Leave(3));
        keeper.hold_back();
        assert!(keeper.has_ended());
    }

    /// Waits until the gate is closed, and starts a region.
    fn await_closed(device: &Arc<Fake>) -> Receiver<()> {
        while !device.words.is_closed() {
            std::thread::yield_now();
        }
        launch(device)
    }
}
