//! Random correct programs, and the contents that their memory must have.
//!
//! Vector clocks find races, and waits are inserted to prevent them. So the result is that of doing all operations at
//! once, in program order.

pub(super) use super::op::{FalseCommand, Op};
use crate::random::Random;
use accord_types::QueueId;

/// First address of a device's memory.
pub(super) const DEVICE_BASE: u64 = 1 << 32;
/// Number of operations of a flood.
const FLOOD: usize = 800;
/// Bytes of a cell; all have the cell's value.
pub(super) const CELL: usize = 16;
/// Most bytes that travel inside a command or an event.
pub(super) const SMALL: usize = 2 * CELL;
/// Number of cells for copies and regions, in the program's memory and on each device.
const CELLS: usize = 10;
/// Most devices of a thread.
pub(super) const DEVICES_MAX: usize = 3;
/// Number of cells in the program's memory that are never written.
const READ_ONLY_CELLS: usize = 3;
/// The first read-only cell. It follows the cells that all operations use, and copies of all devices' cells.
pub(super) const READ_ONLY: usize = (1 + DEVICES_MAX) * CELLS;
/// The value of the read-only cells.
pub(super) const READ_ONLY_VALUE: u8 = 0x5a;
/// Number of cells in the program's memory.
pub(super) const HOST_CELLS: usize = READ_ONLY + READ_ONLY_CELLS;
const QUEUES: [QueueId; 5] = [QueueId(0), QueueId(1), QueueId(2), QueueId(3), QueueId::SYNC];
/// Index of the synchronous queue in [`QUEUES`].
const SYNC: usize = 4;

/// The misbehaviour of a program.
#[derive(Clone, Copy, Default)]
pub(super) struct Misbehaviour {
    /// Sends false commands.
    pub(super) false_commands: bool,
    /// Breaks the protocol.
    pub(super) breaks: bool,
    /// Enqueues more than a stream holds.
    pub(super) floods: bool,
}

/// Returns the value that a kernel writes to a cell.
pub(super) fn mix(cell: u8, from: u8, salt: u8) -> u8 {
    cell.wrapping_mul(31).wrapping_add(from.wrapping_mul(17)).wrapping_add(salt)
}

/// Positions of all queues of the thread's devices, see [`Writer::queue`].
type Clock = Vec<u64>;

#[derive(Clone, Default)]
struct Cell {
    value: u8,
    written: Option<(usize, u64)>,
    read: Vec<(usize, u64)>,
}

/// The memory of a cell.
#[derive(Clone, Copy, PartialEq, Eq)]
enum CellMemory {
    Host,
    Device(usize),
}

struct Writer<'a> {
    random: &'a mut Random,
    ops: Vec<Op>,
    host: Vec<Cell>,
    devices: Vec<Vec<Cell>>,
    /// The current device.
    on: usize,
    /// The positions that each queue is ordered after, and those that the program has waited for.
    clocks: Vec<Clock>,
    waited: Clock,
    /// Number of operations in each queue.
    count: Clock,
}

/// Creates a program of about `len` calls with this many devices.
pub(super) fn write(random: &mut Random, len: usize, devices: usize, manners: Misbehaviour) -> Vec<Op> {
    let queues = devices * QUEUES.len();
    let mut writer = Writer {
        random,
        ops: Vec::new(),
        host: vec![Cell::default(); HOST_CELLS],
        devices: vec![vec![Cell::default(); CELLS]; devices],
        on: 0,
        clocks: vec![vec![0; queues]; queues],
        waited: vec![0; queues],
        count: vec![0; queues],
    };
    writer.host[READ_ONLY..].iter_mut().for_each(|cell| cell.value = READ_ONLY_VALUE);
    let (flood, breach) = (writer.random.index(len), writer.random.index(len));
    for index in 0..len {
        writer.one();
        if manners.false_commands && writer.random.chance(20) {
            writer.ops.push(Op::Lie(FalseCommand::one(writer.random, false)));
        }
        if manners.breaks && index == breach {
            writer.ops.push(Op::Lie(FalseCommand::one(writer.random, true)));
        }
        if manners.floods && index == flood {
            let (queue, cell) = (writer.random.index(QUEUES.len()), writer.random.index(CELLS));
            (0..FLOOD).for_each(|_| writer.kernel(queue, cell, cell));
        }
    }
    for device in 0..devices {
        writer.switch(device);
        writer.copy_out(0, 0, (1 + device) * CELLS, CELLS);
        writer.ops.push(Op::Wait(QUEUES.to_vec()));
    }
    for host in 0..HOST_CELLS {
        let expected = writer.host[host].value;
        writer.ops.push(Op::Check { host, expected });
    }
    writer.ops.extend(end(devices));
    writer.ops
}

/// Returns the calls that shut all devices down.
pub(super) fn end(devices: usize) -> impl Iterator<Item = Op> {
    (0..devices).flat_map(|device| [Op::Switch(device), Op::Shutdown])
}

impl Writer<'_> {
    /// Returns the index of a current device's queue among all queues.
    fn queue(&self, queue: usize) -> usize {
        self.on * QUEUES.len() + queue
    }

    fn switch(&mut self, device: usize) {
        if device != self.on {
            self.on = device;
            self.ops.push(Op::Switch(device));
        }
    }

    fn one(&mut self) {
        if self.devices.len() > 1 && self.random.chance(30) {
            let device = self.random.index(self.devices.len());
            self.switch(device);
        }
        let queue = self.random.index(QUEUES.len());
        let cells = if self.random.chance(60) { 1 + self.random.index(2) } else { 3 + self.random.index(CELLS - 3) };
        let (device, host) = (self.random.index(CELLS - cells + 1), self.random.index(CELLS - cells + 1));
        if self.devices.len() > 1 && self.random.chance(20) {
            return self.between(queue, device, host, cells);
        }
        match self.random.within(0..100) {
            0..18 => {
                let (cell, from) = (self.random.index(CELLS), self.random.index(CELLS));
                self.kernel(queue, cell, from);
            }
            18..43 => self.copy_in(queue, device, host, cells),
            43..60 => self.copy_out(queue, device, host, cells),
            60..67 => self.copy_changed(queue),
            67..70 => self.compare(queue, device),
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
        let here = CellMemory::Device(self.on);
        self.before(queue, here, cell, true);
        self.before(queue, here, from, false);
        let at = self.put(queue);
        let value = mix(self.cell(here, cell).value, self.cell(here, from).value, salt);
        self.note(here, from, at, false);
        self.note(here, cell, at, true);
        self.cell(here, cell).value = value;
        self.ops.push(Op::Kernel { queue: QUEUES[queue], cell, from, salt });
    }

    fn copy_in(&mut self, queue: usize, device: usize, host: usize, cells: usize) {
        let now = self.random.chance(40);
        let here = CellMemory::Device(self.on);
        for cell in 0..cells {
            self.before(queue, here, device + cell, true);
            if now {
                self.before_host(host + cell, false);
            } else {
                self.before(queue, CellMemory::Host, host + cell, false);
            }
        }
        let at = self.put(queue);
        for cell in 0..cells {
            self.cell(here, device + cell).value = self.host[host + cell].value;
            self.note(here, device + cell, at, true);
            if !now {
                self.note(CellMemory::Host, host + cell, at, false);
            }
        }
        self.ops.push(Op::CopyIn { queue: QUEUES[queue], device, host, cells, now });
    }

    fn copy_out(&mut self, queue: usize, device: usize, host: usize, cells: usize) {
        let here = CellMemory::Device(self.on);
        for cell in 0..cells {
            self.before(queue, here, device + cell, false);
            self.before(queue, CellMemory::Host, host + cell, true);
        }
        let at = self.put(queue);
        for cell in 0..cells {
            self.host[host + cell].value = self.cell(here, device + cell).value;
            self.note(here, device + cell, at, false);
            self.note(CellMemory::Host, host + cell, at, true);
        }
        self.ops.push(Op::CopyOut { queue: QUEUES[queue], device, host, cells });
    }

    /// Enqueues a copy out of several cells, each of which is written only if it differs from what was sent.
    fn copy_changed(&mut self, queue: usize) {
        let here = CellMemory::Device(self.on);
        let cells = 1 + self.random.index(SMALL / CELL);
        let device = self.random.index(CELLS - cells + 1);
        let mut hosts: Vec<_> = (0..cells).map(|_| self.random.index(CELLS)).collect();
        hosts.dedup();
        for (cell, &host) in hosts.iter().enumerate() {
            self.before(queue, here, device + cell, false);
            self.before(queue, CellMemory::Host, host, true);
        }
        let at = self.put(queue);
        let mut places = Vec::new();
        for (cell, &host) in hosts.iter().enumerate() {
            let value = self.cell(here, device + cell).value;
            let sent = if self.random.chance(50) { value } else { self.host[host].value };
            if value != sent {
                self.host[host].value = value;
            }
            places.push((host, sent));
            self.note(here, device + cell, at, false);
            self.note(CellMemory::Host, host, at, true);
        }
        self.ops.push(Op::CopyChanged { queue: QUEUES[queue], device, places });
    }

    /// Enqueues a comparison with read-only memory. A wait reports a difference.
    fn compare(&mut self, queue: usize, device: usize) {
        let here = CellMemory::Device(self.on);
        let cells = 1 + self.random.index(READ_ONLY_CELLS);
        let device = device.min(CELLS - cells);
        if self.random.chance(90) {
            self.copy_in(queue, device, READ_ONLY, cells);
        }
        (0..cells).for_each(|cell| self.before(queue, here, device + cell, false));
        let at = self.put(queue);
        let mut differs = false;
        for cell in 0..cells {
            differs |= self.cell(here, device + cell).value != READ_ONLY_VALUE;
            self.note(here, device + cell, at, false);
        }
        self.ops.push(Op::Compare { queue: QUEUES[queue], device, host: READ_ONLY, cells, differs });
        if differs {
            self.wait(&[queue]);
            self.ops.push(Op::HasFailed);
        }
    }

    /// Enqueues a copy to another device. It is ordered only after the program's synchronous operations there.
    fn between(&mut self, queue: usize, device: usize, at: usize, cells: usize) {
        let source = self.on;
        let to = (source + 1 + self.random.index(self.devices.len() - 1)) % self.devices.len();
        let sync = to * QUEUES.len() + SYNC;
        for cell in 0..cells {
            self.before(queue, CellMemory::Device(source), device + cell, false);
            for (other, seq) in Self::conflicts(&self.devices[to][at + cell], true) {
                let own = self.queue(queue);
                if other != sync && other != own && self.clocks[own][other].max(self.waited[other]) < seq {
                    self.wait_for(other);
                }
            }
        }
        // A copy out by the synchronous queue may land later, so no other operation is ordered after it.
        let put = self.put(queue);
        for cell in 0..cells {
            self.devices[to][at + cell].value = self.devices[source][device + cell].value;
            self.note(CellMemory::Device(source), device + cell, put, false);
            self.note(CellMemory::Device(to), at + cell, put, true);
        }
        self.ops.push(Op::Between { queue: QUEUES[queue], device, to, at, cells });
    }

    fn cell(&mut self, of: CellMemory, cell: usize) -> &mut Cell {
        match of {
            CellMemory::Host => &mut self.host[cell],
            CellMemory::Device(device) => &mut self.devices[device][cell],
        }
    }

    fn note(&mut self, of: CellMemory, cell: usize, at: (usize, u64), write: bool) {
        let cell = self.cell(of, cell);
        if write {
            cell.written = Some(at);
            cell.read.clear();
        } else {
            cell.read.push(at);
        }
    }

    /// Returns the accesses that conflict with an access of this kind.
    fn conflicts(cell: &Cell, write: bool) -> Vec<(usize, u64)> {
        let reads = if write { &cell.read[..] } else { &[] };
        cell.written.iter().chain(reads).copied().collect()
    }

    /// Orders the next operation of a queue after all conflicting accesses to a cell.
    fn before(&mut self, queue: usize, of: CellMemory, cell: usize, write: bool) {
        let own = self.queue(queue);
        for (other, at) in Self::conflicts(self.cell(of, cell), write) {
            let known = self.clocks[own][other].max(self.waited[other]);
            if other == own || known >= at {
                continue;
            }
            let here = other / QUEUES.len() == self.on;
            if here && self.random.chance(70) {
                self.wait_queue(queue, other % QUEUES.len());
            } else {
                self.wait_for(other);
            }
        }
    }

    /// Waits until the program may access a cell itself.
    fn before_host(&mut self, cell: usize, write: bool) {
        for (other, at) in Self::conflicts(&self.host[cell], write) {
            if self.waited[other] < at {
                self.wait_for(other);
            }
        }
    }

    /// Enqueues an operation in a queue of the current device.
    fn put(&mut self, queue: usize) -> (usize, u64) {
        let queue = self.queue(queue);
        merge(&mut self.clocks[queue], &self.waited);
        self.count[queue] += 1;
        self.clocks[queue][queue] = self.count[queue];
        (queue, self.count[queue])
    }

    fn wait_queue(&mut self, queue: usize, other: usize) {
        let clock = self.clocks[self.queue(other)].clone();
        let (own, _) = self.put(queue);
        merge(&mut self.clocks[own], &clock);
        self.ops.push(Op::WaitQueue { queue: QUEUES[queue], other: QUEUES[other] });
    }

    /// Waits for a queue of any device.
    fn wait_for(&mut self, queue: usize) {
        let on = self.on;
        self.switch(queue / QUEUES.len());
        self.wait(&[queue % QUEUES.len()]);
        self.switch(on);
    }

    fn wait(&mut self, queues: &[usize]) {
        for &queue in queues {
            let queue = self.queue(queue);
            merge(&mut self.waited, &self.clocks[queue]);
        }
        self.ops.push(Op::Wait(queues.iter().map(|&queue| QUEUES[queue]).collect()));
    }
}

fn merge(clock: &mut Clock, other: &Clock) {
    clock.iter_mut().zip(other).for_each(|(one, other)| *one = (*one).max(*other));
}
