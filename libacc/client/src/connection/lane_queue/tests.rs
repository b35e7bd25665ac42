use super::*;
use accord_test_tier::splitmix64;

#[test]
fn the_second_thread_starts_when_the_first_has_its_lane_and_more_waits() {
    let mut line = LaneQueue::new(2);
    line.join('a');
    assert_eq!(line.call(), Some(Call::Start));
    line.join('b');
    assert_eq!(line.call(), Some(Call::Wake), "the thread that starts is free");
    assert_eq!(line.take(), Some('a'));
    assert_eq!((line.take(), line.call()), (None, None), "the first has no lane yet");
    assert!(!line.is_empty());
    line.has_lane();
    assert_eq!(line.call(), Some(Call::Start));
    assert_eq!(line.take(), Some('b'));
    assert!(!line.is_empty(), "it has no lane");
    line.has_lane();
    assert!(line.is_empty());
    line.join('c');
    assert_eq!(line.call(), None, "there are no more lanes");
    line.ended();
    assert_eq!(line.take(), Some('c'));
    line.has_lane();
    line.join('d');
    assert_eq!(line.leave().collect::<String>(), "d");
    assert!(line.is_empty());
}

/// Deviations of the simulation from the connection, which must make it fail.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Rule {
    Right,
    /// Eager and requested copies share lanes.
    SharedLanes,
    /// A transfer may be taken before the previous one has its lane.
    NoTurns,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Kernel,
    Eager,
    Asked,
}

/// An operation that the program enqueues.
struct Op {
    queue: usize,
    kind: Kind,
    /// Whether the copy is larger than a socket's buffer, so that it is sent only while the executor reads.
    large: bool,
    /// Whether the program sends it itself, if possible, and waits until it is sent.
    waited: bool,
    asked: bool,
    sent: bool,
    done: bool,
}

#[derive(Default)]
struct Lane {
    acquired: bool,
    /// Transfers whose bytes are unread.
    bytes: VecDeque<usize>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Activity {
    Asleep,
    Awake,
    /// The thread has taken a transfer, and waits for a lane.
    Acquiring(usize),
    /// The thread sends a transfer on a lane.
    Sending(usize, usize),
}

/// A program, its threads, lanes, and an executor whose reader waits for full streams.
struct World {
    rule: Rule,
    random: u64,
    ops: Vec<Op>,
    /// Number of ops that the reader of commands has read.
    read: usize,
    streams: Vec<VecDeque<usize>>,
    lines: [LaneQueue<usize>; 2],
    lanes: [Vec<Lane>; 2],
    threads: Vec<(usize, Activity)>,
    /// The transfer that the program's own thread sends or waits for, and its lane.
    caller: Option<(usize, Option<usize>)>,
    /// Highest number of lanes of a line in use at one time.
    acquired_most: [usize; 2],
}

const OPS: usize = 40;
const QUEUES: usize = 5;
/// Fewer than queues: some share one, which the program does not know.
const STREAMS: usize = 3;
/// Number of operations that a stream holds.
const SPACE: usize = 3;
/// Number of commands that may be unread.
const UNREAD: usize = 8;
const LANES: usize = 2;

#[derive(Clone, Copy)]
enum Step {
    Put,
    Read,
    Stream(usize),
    Thread(usize),
    Caller,
}

impl World {
    fn new(rule: Rule, seed: u64) -> Self {
        Self {
            rule,
            random: seed,
            ops: Vec::new(),
            read: 0,
            streams: (0..STREAMS).map(|_| VecDeque::new()).collect(),
            lines: [LaneQueue::new(LANES), LaneQueue::new(LANES)],
            lanes: [0, 1].map(|_| (0..LANES).map(|_| Lane::default()).collect()),
            threads: Vec::new(),
            caller: None,
            acquired_most: [0; 2],
        }
    }

    fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent as usize
    }

    fn below(&mut self, end: usize) -> usize {
        (splitmix64(&mut self.random) % end as u64) as usize
    }

    /// Returns the lanes of a line.
    fn lanes(&mut self, way: usize) -> &mut Vec<Lane> {
        &mut self.lanes[if self.rule == Rule::SharedLanes { 0 } else { way }]
    }

    fn free_lane(&mut self, way: usize) -> Option<usize> {
        self.lanes(way).iter().position(|lane| !lane.acquired)
    }

    fn acquire(&mut self, way: usize, lane: usize, op: usize) {
        let lanes = self.lanes(way);
        lanes[lane].acquired = true;
        lanes[lane].bytes.push_back(op);
        let acquired = lanes.iter().filter(|lane| lane.acquired).count();
        self.acquired_most[way] = self.acquired_most[way].max(acquired);
    }

    fn call(&mut self, way: usize) {
        match self.lines[way].call() {
            Some(Call::Start) => self.threads.push((way, Activity::Awake)),
            Some(Call::Wake) => {
                if let Some(thread) = self.threads.iter_mut().find(|thread| **thread == (way, Activity::Asleep)) {
                    thread.1 = Activity::Awake;
                }
            }
            None => {}
        }
    }

    fn is_sent(&self, op: usize) -> bool {
        !self.ops[op].large || self.ops[op].done
    }

    fn steps(&mut self) -> Vec<Step> {
        let mut steps = Vec::new();
        if self.caller.is_none() && self.ops.len() < OPS && self.ops.len() - self.read < UNREAD {
            steps.push(Step::Put);
        }
        if let Some(op) = self.ops.get(self.read)
            && self.streams[op.queue % STREAMS].len() < SPACE
        {
            steps.push(Step::Read);
        }
        for stream in 0..STREAMS {
            if let Some(&op) = self.streams[stream].front() {
                let takes = match self.ops[op].kind {
                    Kind::Kernel => true,
                    Kind::Asked if !self.ops[op].asked => true,
                    _ => self.lanes.iter().flatten().any(|lane| lane.bytes.front() == Some(&op)),
                };
                if takes {
                    steps.push(Step::Stream(stream));
                }
            }
        }
        for thread in 0..self.threads.len() {
            let can = match self.threads[thread] {
                (_, Activity::Asleep) => false,
                (_, Activity::Awake) => true,
                (way, Activity::Acquiring(_)) => self.free_lane(way).is_some(),
                (_, Activity::Sending(op, _)) => self.is_sent(op),
            };
            if can {
                steps.push(Step::Thread(thread));
            }
        }
        let ready = match self.caller {
            Some((op, Some(_))) => self.is_sent(op),
            Some((op, None)) => self.ops[op].sent,
            None => false,
        };
        if ready {
            steps.push(Step::Caller);
        }
        steps
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Put => self.put(),
            Step::Read => {
                let queue = self.ops[self.read].queue;
                self.streams[queue % STREAMS].push_back(self.read);
                self.read += 1;
            }
            Step::Stream(stream) => {
                let op = self.streams[stream][0];
                if self.ops[op].kind == Kind::Asked && !self.ops[op].asked {
                    self.ops[op].asked = true;
                    self.lines[1].join(op);
                    return self.call(1);
                }
                self.streams[stream].pop_front();
                self.ops[op].done = true;
                for lane in self.lanes.iter_mut().flatten() {
                    lane.bytes.retain(|&transfer| transfer != op);
                }
            }
            Step::Thread(thread) => self.threads[thread].1 = self.run(thread),
            Step::Caller => {
                if let Some((op, Some(lane))) = self.caller.take() {
                    self.ops[op].sent = true;
                    self.lanes(0)[lane].acquired = false;
                }
            }
        }
    }

    /// Enqueues the program's next operation.
    fn put(&mut self) {
        let op = self.ops.len();
        let queue = self.below(QUEUES);
        let quiet = self.ops.iter().all(|op| op.queue != queue || op.kind == Kind::Eager || op.done);
        let kind = match self.chance(30) {
            true => Kind::Kernel,
            false if quiet => Kind::Eager,
            false => Kind::Asked,
        };
        let (large, waited) = (self.chance(50), self.chance(40));
        self.ops.push(Op { queue, kind, large, waited, asked: false, sent: false, done: false });
        let free = self.free_lane(0);
        match (kind, free) {
            (Kind::Eager, Some(lane)) if waited && self.lines[0].is_empty() => {
                self.acquire(0, lane, op);
                self.caller = Some((op, Some(lane)));
            }
            (Kind::Eager, _) => {
                self.caller = waited.then_some((op, None));
                self.lines[0].join(op);
                self.call(0);
            }
            _ => {}
        }
    }

    /// Performs one step of a thread, as in `Connection::send_copies`.
    fn run(&mut self, thread: usize) -> Activity {
        let (way, state) = self.threads[thread];
        match state {
            Activity::Asleep => Activity::Asleep,
            Activity::Awake => match self.lines[way].take() {
                None => Activity::Asleep,
                Some(op) => {
                    if self.rule == Rule::NoTurns {
                        self.lines[way].has_lane();
                        self.call(way);
                    }
                    Activity::Acquiring(op)
                }
            },
            Activity::Acquiring(op) => {
                let lane = self.free_lane(way).expect("only then");
                self.acquire(way, lane, op);
                if self.rule != Rule::NoTurns {
                    self.lines[way].has_lane();
                    self.call(way);
                }
                Activity::Sending(op, lane)
            }
            Activity::Sending(op, lane) => {
                self.lanes(way)[lane].acquired = false;
                self.ops[op].sent = true;
                self.lines[way].ended();
                Activity::Awake
            }
        }
    }

    /// Whether all operations of the program complete.
    fn ends(&mut self) -> bool {
        loop {
            let steps = self.steps();
            if steps.is_empty() {
                return self.ops.len() == OPS
                    && self.ops.iter().all(|op| op.done && (!op.waited || op.kind != Kind::Eager || op.sent));
            }
            let step = steps[self.below(steps.len())];
            self.step(step);
        }
    }
}

const SEEDS: std::ops::Range<u64> = 0..3000;

#[test]
fn every_transfer_comes_whatever_the_order_of_events() {
    let mut acquired_most = [0; 2];
    for seed in SEEDS {
        let mut world = World::new(Rule::Right, seed);
        assert!(world.ends(), "seed {seed} stands still");
        for (way, most) in acquired_most.iter_mut().enumerate() {
            assert!(world.threads.iter().filter(|thread| thread.0 == way).count() <= LANES);
            *most = world.acquired_most[way].max(*most);
        }
    }
    assert_eq!(acquired_most, [LANES; 2], "all lanes are used at a time");
}

#[test]
fn each_of_the_rules_is_needed() {
    for rule in [Rule::SharedLanes, Rule::NoTurns] {
        assert!(SEEDS.into_iter().any(|seed| !World::new(rule, seed).ends()));
    }
}
