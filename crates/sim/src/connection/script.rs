//! What a thread of the program does: a random program that is right, and what it must find in its memory.
//!
//! Vector clocks say what would race, and waits are put in where something would. So the result is that of doing everything at
//! once, in the order of the program.

use crate::random::Random;
use accord_types::QueueId;

/// Where a device's memory begins.
pub(super) const DEVICE_BASE: u64 = 1 << 32;
/// Operations of a flood.
const FLOOD: usize = 800;
/// Bytes of a cell, all of which have its value.
pub(super) const CELL: usize = 16;
/// Bytes that travel inside a command or an event.
pub(super) const SMALL: usize = 2 * CELL;
/// Cells that copies and regions touch, in the program's memory and on the device.
const CELLS: usize = 10;
/// Cells of the program's memory: what the device has at the end is copied behind the others.
pub(super) const HOST_CELLS: usize = 2 * CELLS;
const QUEUES: [QueueId; 5] = [QueueId(0), QueueId(1), QueueId(2), QueueId(3), QueueId::SYNC];

/// One call of the program.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Op {
    /// `device[cell]` becomes a function of itself and `device[from]`.
    Kernel {
        queue: QueueId,
        cell: usize,
        from: usize,
        salt: u8,
    },
    CopyIn {
        queue: QueueId,
        device: usize,
        host: usize,
        cells: usize,
        now: bool,
    },
    CopyOut {
        queue: QueueId,
        device: usize,
        host: usize,
        cells: usize,
    },
    WaitQueue {
        queue: QueueId,
        other: QueueId,
    },
    Wait(Vec<QueueId>),
    Test(QueueId),
    HostWrite {
        host: usize,
        value: u8,
    },
    Check {
        host: usize,
        expected: u8,
    },
    /// GPU code: much for the command lane.
    Image,
    /// The program does something else for so many microseconds.
    Pause(u64),
    /// Says something that is not so.
    Lie(Lie),
    /// Ends the device.
    Shutdown,
}

/// What a program says that is not so.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Lie {
    /// An operation that can't be.
    Operation(u32),
    /// A question that has no answer.
    Question(u32),
    /// What is not the protocol.
    Protocol(u32),
    /// Nor a command.
    Garbage,
}

impl Lie {
    pub(super) const OPERATIONS: u32 = 13;
    pub(super) const QUESTIONS: u32 = 7;
    pub(super) const BREACHES: u32 = 6;

    /// One of a program that keeps to the protocol, or of one that does not.
    fn one(random: &mut Random, breaks: bool) -> Self {
        let mut of = |count: u32| u32::try_from(random.within(0..count.into())).unwrap_or(0);
        match (breaks, of(10)) {
            (true, 0..3) => Self::Garbage,
            (true, _) => Self::Protocol(of(Self::BREACHES)),
            (false, 0..7) => Self::Operation(of(Self::OPERATIONS)),
            (false, _) => Self::Question(of(Self::QUESTIONS)),
        }
    }
}

/// What kind of program it is.
#[derive(Clone, Copy, Default)]
pub(super) struct Manners {
    /// It says what is not so.
    pub(super) lies: bool,
    /// It does not keep to the protocol.
    pub(super) breaks: bool,
    /// It puts more into a queue than a stream holds.
    pub(super) floods: bool,
}

/// What a kernel makes of its cells.
pub(super) fn mix(cell: u8, from: u8, salt: u8) -> u8 {
    cell.wrapping_mul(31).wrapping_add(from.wrapping_mul(17)).wrapping_add(salt)
}

type Clock = [u64; QUEUES.len()];

#[derive(Clone, Default)]
struct Cell {
    value: u8,
    written: Option<(usize, u64)>,
    read: Vec<(usize, u64)>,
}

struct Writer<'a> {
    random: &'a mut Random,
    ops: Vec<Op>,
    host: Vec<Cell>,
    device: Vec<Cell>,
    /// What each queue comes after, and what the program has waited for.
    clocks: [Clock; QUEUES.len()],
    waited: Clock,
    /// Operations put into each queue.
    count: Clock,
}

/// A program of about `len` calls.
pub(super) fn write(random: &mut Random, len: usize, manners: Manners) -> Vec<Op> {
    let mut writer = Writer {
        random,
        ops: Vec::new(),
        host: vec![Cell::default(); HOST_CELLS],
        device: vec![Cell::default(); CELLS],
        clocks: [[0; QUEUES.len()]; QUEUES.len()],
        waited: [0; QUEUES.len()],
        count: [0; QUEUES.len()],
    };
    let (flood, breach) = (writer.random.index(len), writer.random.index(len));
    for index in 0..len {
        writer.one();
        if manners.lies && writer.random.chance(20) {
            writer.ops.push(Op::Lie(Lie::one(writer.random, false)));
        }
        if manners.breaks && index == breach {
            writer.ops.push(Op::Lie(Lie::one(writer.random, true)));
        }
        if manners.floods && index == flood {
            let (queue, cell) = (writer.random.index(QUEUES.len()), writer.random.index(CELLS));
            (0..FLOOD).for_each(|_| writer.kernel(queue, cell, cell));
        }
    }
    writer.copy_out(0, 0, CELLS, CELLS);
    writer.ops.push(Op::Wait(QUEUES.to_vec()));
    for host in 0..HOST_CELLS {
        let expected = writer.host[host].value;
        writer.ops.push(Op::Check { host, expected });
    }
    writer.ops.push(Op::Shutdown);
    writer.ops
}

impl Writer<'_> {
    fn one(&mut self) {
        let queue = self.random.index(QUEUES.len());
        let cells = if self.random.chance(60) { 1 + self.random.index(2) } else { 3 + self.random.index(CELLS - 3) };
        let (device, host) = (self.random.index(CELLS - cells + 1), self.random.index(CELLS - cells + 1));
        match self.random.within(0..100) {
            0..20 => {
                let (cell, from) = (self.random.index(CELLS), self.random.index(CELLS));
                self.kernel(queue, cell, from);
            }
            20..45 => self.copy_in(queue, device, host, cells),
            45..70 => self.copy_out(queue, device, host, cells),
            70..78 => {
                let other = self.random.index(QUEUES.len());
                if other != queue {
                    self.wait_queue(queue, other);
                }
            }
            78..84 => {
                let mut queues: Vec<_> = (0..QUEUES.len()).filter(|_| self.random.chance(40)).collect();
                queues.push(queue);
                queues.dedup();
                self.wait(&queues);
            }
            84..87 => self.ops.push(Op::Test(QUEUES[queue])),
            87..92 => {
                let value = self.random.within(0..256).to_le_bytes()[0];
                self.before_host(host, true);
                self.host[host].value = value;
                self.ops.push(Op::HostWrite { host, value });
            }
            92..96 => {
                self.before_host(host, false);
                let expected = self.host[host].value;
                self.ops.push(Op::Check { host, expected });
            }
            96..98 => self.ops.push(Op::Image),
            _ => {
                let pause = if self.random.chance(30) { 40_000 } else { 300 };
                let pause = self.random.within(1..pause);
                self.ops.push(Op::Pause(pause));
            }
        }
    }

    fn kernel(&mut self, queue: usize, cell: usize, from: usize) {
        let salt = self.random.within(0..256).to_le_bytes()[0];
        self.before(queue, false, cell, true);
        self.before(queue, false, from, false);
        let at = self.put(queue);
        self.device[cell].value = mix(self.device[cell].value, self.device[from].value, salt);
        Self::note(&mut self.device[from], queue, at, false);
        Self::note(&mut self.device[cell], queue, at, true);
        self.ops.push(Op::Kernel { queue: QUEUES[queue], cell, from, salt });
    }

    fn copy_in(&mut self, queue: usize, device: usize, host: usize, cells: usize) {
        let now = self.random.chance(40);
        for cell in 0..cells {
            self.before(queue, false, device + cell, true);
            if now {
                self.before_host(host + cell, false);
            } else {
                self.before(queue, true, host + cell, false);
            }
        }
        let at = self.put(queue);
        for cell in 0..cells {
            self.device[device + cell].value = self.host[host + cell].value;
            Self::note(&mut self.device[device + cell], queue, at, true);
            if !now {
                Self::note(&mut self.host[host + cell], queue, at, false);
            }
        }
        self.ops.push(Op::CopyIn { queue: QUEUES[queue], device, host, cells, now });
    }

    fn copy_out(&mut self, queue: usize, device: usize, host: usize, cells: usize) {
        for cell in 0..cells {
            self.before(queue, false, device + cell, false);
            self.before(queue, true, host + cell, true);
        }
        let at = self.put(queue);
        for cell in 0..cells {
            self.host[host + cell].value = self.device[device + cell].value;
            Self::note(&mut self.device[device + cell], queue, at, false);
            Self::note(&mut self.host[host + cell], queue, at, true);
        }
        self.ops.push(Op::CopyOut { queue: QUEUES[queue], device, host, cells });
    }

    fn note(cell: &mut Cell, queue: usize, at: u64, write: bool) {
        if write {
            cell.written = Some((queue, at));
            cell.read.clear();
        } else {
            cell.read.push((queue, at));
        }
    }

    /// What an access has to come after.
    fn conflicts(cell: &Cell, write: bool) -> Vec<(usize, u64)> {
        let reads = if write { &cell.read[..] } else { &[] };
        cell.written.iter().chain(reads).copied().collect()
    }

    /// Sees to it that the next operation of a queue may touch a cell.
    fn before(&mut self, queue: usize, of_host: bool, cell: usize, write: bool) {
        let cell = if of_host { &self.host[cell] } else { &self.device[cell] };
        for (other, at) in Self::conflicts(cell, write) {
            let known = self.clocks[queue][other].max(self.waited[other]);
            if other == queue || known >= at {
                continue;
            }
            if self.random.chance(70) { self.wait_queue(queue, other) } else { self.wait(&[other]) }
        }
    }

    /// Sees to it that the program may touch a cell itself.
    fn before_host(&mut self, cell: usize, write: bool) {
        for (other, at) in Self::conflicts(&self.host[cell], write) {
            if self.waited[other] < at {
                self.wait(&[other]);
            }
        }
    }

    fn put(&mut self, queue: usize) -> u64 {
        merge(&mut self.clocks[queue], &self.waited);
        self.count[queue] += 1;
        self.clocks[queue][queue] = self.count[queue];
        self.count[queue]
    }

    fn wait_queue(&mut self, queue: usize, other: usize) {
        let clock = self.clocks[other];
        self.put(queue);
        merge(&mut self.clocks[queue], &clock);
        self.ops.push(Op::WaitQueue { queue: QUEUES[queue], other: QUEUES[other] });
    }

    fn wait(&mut self, queues: &[usize]) {
        for &queue in queues {
            merge(&mut self.waited, &self.clocks[queue]);
        }
        self.ops.push(Op::Wait(queues.iter().map(|&queue| QUEUES[queue]).collect()));
    }
}

fn merge(clock: &mut Clock, other: &Clock) {
    clock.iter_mut().zip(other).for_each(|(one, other)| *one = (*one).max(*other));
}
