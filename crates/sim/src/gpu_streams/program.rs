//! The program: it enqueues operations whose order is given by streams and waits, and knows the contents of all memory.

use super::driver::{end, push, put_here, serve};
use super::faults::Fault;
use super::gpu::Action;
use super::injected::{InjectedFault, answer, copy, execute, injected, notify};
use super::machine::{CELLS, Download, Held, INCOMING, PeerProcess, Record, STREAMS, World};
use super::operation::{Moving, Op, OpKind, Out, Work, is_pinned};
use super::scheduler::{Thread, run as run_threads, step};
use super::slots::Pool;
use super::waits::{synchronize, wait_issued};
use crate::random::Random;
use accord_device::stream::Dependence;
use accord_types::Result;
use std::cell::Cell;
use std::rc::Rc;

/// Most steps of all threads, far more than any run needs.
const STEPS_MAX: u64 = 200_000;

/// Runs a seed.
///
/// # Errors
/// Returns the first violation.
pub fn run(seed: u64) -> Result<(), String> {
    run_with(seed, None)
}

/// Runs a seed with a planted fault.
///
/// # Errors
/// Returns the first violation.
pub fn run_with(seed: u64, fault: Option<Fault>) -> Result<(), String> {
    let mut random = Random::new(seed);
    let plan = match random.index(8) {
        0 | 1 => InjectedFault::OtherEnds(random.within(5..60)),
        2 => InjectedFault::Loss(random.within(0..400)),
        3 => InjectedFault::Shutdown(random.within(0..400)),
        _ => InjectedFault::Nothing,
    };
    let world = World::new(Random::new(random.number()), fault);
    world.lock().troubled = plan != InjectedFault::Nothing;
    let mut threads: Vec<Thread> =
        (0..STREAMS).map(|stream| Box::pin(serve(world.clone(), stream)) as Thread).collect();
    let pace = [100, 30, 5][random.index(3)];
    threads.push(Box::pin(execute(world.clone(), pace)));
    threads.push(Box::pin(copy(world.clone())));
    threads.push(Box::pin(answer(world.clone(), plan)));
    threads.push(Box::pin(notify(world.clone())));
    threads.push(Box::pin(injected(world.clone(), plan)));
    threads.push(Box::pin(Program::new(world.clone(), Random::new(random.number())).run()));
    let over = run_threads(threads, &mut random, STEPS_MAX, || world.lock().violation.is_some());
    let mut machine = world.lock();
    if let Some(why) = machine.violation.take() {
        return Err(why);
    }
    if !over {
        return Err(format!("threads do not end, with trouble {plan:?}"));
    }
    // Work that no waiter needed has slots, too.
    for stream in 0..STREAMS {
        while let accord_device::stream::NextWork::Run(work) = machine.streams[stream].next_work(u64::MAX) {
            if let Work::Slot { slot, .. } = work {
                machine.pools.give_back(slot);
            }
        }
    }
    let missing = machine.pools.missing();
    // Work behind that of another stream keeps its slots.
    if missing > 0 && plan == InjectedFault::Nothing {
        return Err(format!("{missing} slots have not returned"));
    }
    Ok(())
}

/// What the program knows of a cell.
#[derive(Clone, Copy, Default)]
struct CellModel {
    value: u64,
    /// The last operation with the cell.
    last: Option<(usize, u64)>,
    released: bool,
}

struct Program {
    world: World,
    random: Random,
    device: [CellModel; CELLS],
    host: [CellModel; CELLS],
    values: u64,
}

impl Program {
    fn new(world: World, random: Random) -> Self {
        Self { world, random, device: [CellModel::default(); CELLS], host: [CellModel::default(); CELLS], values: 0 }
    }

    /// Enqueues operations, waits for all, and shuts the device down.
    async fn run(mut self) {
        let count = self.random.within(5..40);
        let mut outcome = Ok(());
        for _ in 0..count {
            outcome = self.call().await;
            step().await;
            if outcome.is_err() {
                break;
            }
        }
        for stream in 0..STREAMS {
            let last = self.world.lock().streams[stream].rules().last();
            let waited = self.synchronize(stream, last).await;
            outcome = outcome.and(waited);
        }
        self.verify_memory(outcome);
        end(&self.world).await;
        self.world.lock().enqueued = true;
    }

    fn verify_memory(&self, outcome: Result<()>) {
        let mut machine = self.world.lock();
        match outcome {
            Err(error) if !machine.troubled => machine.violate(format!("the program has an error: {error}")),
            Err(_) => {}
            Ok(()) => {
                for cell in 0..CELLS {
                    let known = (!self.device[cell].released).then_some(self.device[cell].value);
                    let (found, host) = (machine.gpu.memory[cell], machine.host[cell]);
                    if found != known || host != self.host[cell].value {
                        machine.violate(format!("cell {cell} has {found:?} and {host} in the end"));
                    }
                }
            }
        }
    }

    /// Waits for a position, whose operations are done then.
    async fn synchronize(&self, stream: usize, seq: u64) -> Result<()> {
        synchronize(&self.world, stream, seq).await?;
        self.world.lock().verify(stream, seq);
        Ok(())
    }

    /// Enqueues an operation, or waits.
    async fn call(&mut self) -> Result<()> {
        let stream = self.random.index(STREAMS);
        if self.random.chance(15) {
            let seq = self.world.lock().streams[stream].rules().last();
            let seq = self.random.within(0..seq + 1);
            if self.random.chance(60) {
                self.world.lock().notices.push((stream, seq));
                return Ok(());
            }
            return self.synchronize(stream, seq).await;
        }
        let mapped: Vec<_> = (0..CELLS).filter(|cell| !self.device[*cell].released).collect();
        let cell = mapped[self.random.index(mapped.len())];
        if INCOMING.contains(&stream) {
            return self.arrive(stream, cell).await;
        }
        let host = self.random.index(CELLS);
        match self.random.index(20) {
            0..5 => self.update(stream, cell).await,
            5..8 => self.copy_in(stream, cell, host).await,
            8..15 => self.copy_out(stream, cell, host).await,
            15 | 16 => self.send(stream, cell).await,
            17 | 18 => self.arrive(stream, cell).await,
            _ if mapped.len() > CELLS / 2 => self.unmap(stream, cell).await,
            _ => Ok(()),
        }
    }

    fn value(&mut self) -> u64 {
        self.values += 1;
        self.values
    }

    /// Adds the record of an operation of so many parts.
    fn record(&self, stream: usize, left: u32, follows: Option<(usize, u64)>) -> usize {
        let mut machine = self.world.lock();
        machine.records.push(Record { stream, seq: None, left, follows, elsewhere: PeerProcess::Idle });
        machine.records.len() - 1
    }

    /// Orders the next operation of a stream after the last ones with these cells.
    async fn order_after(&mut self, stream: usize, cell: Option<usize>, host: Option<usize>) -> Result<()> {
        let last = [cell.and_then(|cell| self.device[cell].last), host.and_then(|host| self.host[host].last)];
        for (other, seq) in last.into_iter().flatten().filter(|(other, _)| *other != stream) {
            if self.random.chance(20) {
                self.synchronize(other, seq).await?;
            } else {
                self.wait_stream(stream, other, seq).await?;
            }
        }
        Ok(())
    }

    async fn wait_stream(&mut self, stream: usize, other: usize, other_seq: u64) -> Result<()> {
        let id = self.record(stream, 1, Some((other, other_seq)));
        let op = Op { id, kind: OpKind::Wait { other, seq: other_seq } };
        let world = &self.world;
        let mut machine = world.lock();
        machine.check(other)?;
        machine.flush(other)?;
        if !machine.streams[other].rules().has_issued(other_seq) {
            drop(machine);
            return push(world, stream, op).await.map(drop);
        }
        let after = machine.mark(other, other_seq)?;
        drop(machine);
        step().await;
        if matches!(after, Dependence::Host | Dependence::DriverThenHost) {
            loop {
                let first = world.lock().streams[stream].rules().excess_work();
                let Some(first) = first else { break };
                synchronize(world, stream, first).await?;
            }
        }
        let mut machine = world.lock();
        machine.check_to_put(stream)?;
        if !machine.streams[stream].may_issue() {
            drop(machine);
            return push(world, stream, op).await.map(drop);
        }
        machine.order_after(stream)?;
        let seq = machine.streams[stream].rules().next();
        machine.follow(stream, (id, seq), (other, other_seq), after);
        machine.streams[stream].rules().issue();
        machine.records[id].seq = Some(seq);
        Ok(())
    }

    /// Runs a region, or copies a few bytes.
    async fn update(&mut self, stream: usize, cell: usize) -> Result<()> {
        self.order_after(stream, Some(cell), None).await?;
        let (before, after) = (self.device[cell].value, self.value());
        let id = self.record(stream, 1, None);
        let action = Action::Update { cell, before, after };
        let seq = self.put(stream, id, action).await?;
        self.device[cell] = CellModel { value: after, last: Some((stream, seq)), released: false };
        Ok(())
    }

    /// Puts an access into the driver's stream, or into the list.
    async fn put(&mut self, stream: usize, id: usize, action: Action) -> Result<u64> {
        let mut machine = self.world.lock();
        machine.check_to_put(stream)?;
        if !machine.streams[stream].may_issue() {
            drop(machine);
            return push(&self.world, stream, Op { id, kind: OpKind::Device(action) }).await;
        }
        machine.order_after(stream)?;
        machine.enqueue(stream, id, action)?;
        let seq = machine.streams[stream].rules().issue();
        machine.records[id].seq = Some(seq);
        Ok(seq)
    }

    async fn copy_in(&mut self, stream: usize, cell: usize, host: usize) -> Result<()> {
        self.order_after(stream, Some(cell), Some(host)).await?;
        let (before, value) = (self.device[cell].value, self.host[host].value);
        let id = self.record(stream, 1, None);
        let op = Op { id, kind: OpKind::In { host, cell, before, value } };
        let seq = if self.random.chance(30) {
            put_here(&self.world, stream, op).await?
        } else {
            push(&self.world, stream, op).await?
        };
        self.device[cell] = CellModel { value, last: Some((stream, seq)), released: false };
        self.host[host].last = Some((stream, seq));
        Ok(())
    }

    async fn copy_out(&mut self, stream: usize, cell: usize, host: usize) -> Result<()> {
        self.order_after(stream, Some(cell), Some(host)).await?;
        let (value, before) = (self.device[cell].value, self.host[host].value);
        let id = self.record(stream, 2, None);
        let out = Out { id, cell, value, host, before };
        let way = if is_pinned(host) { [0, 1, 1, 1, 2][self.random.index(5)] } else { self.random.index(4) };
        let issued = self.copy_out_now(stream, out, way)?;
        let seq = match issued {
            Some(seq) => seq,
            None => push(&self.world, stream, Op { id, kind: OpKind::Out(out) }).await?,
        };
        self.world.lock().records[id].seq = Some(seq);
        self.device[cell].last = Some((stream, seq));
        self.host[host] = CellModel { value, last: Some((stream, seq)), released: false };
        Ok(())
    }

    /// Puts a copy out into the driver's stream by one of the ways for idle streams, or holds it back.
    fn copy_out_now(&self, stream: usize, out: Out, way: usize) -> Result<Option<u64>> {
        let mut machine = self.world.lock();
        machine.check(stream)?;
        if machine.streams[stream].rules().is_closing() {
            return Err(super::machine::shut_down());
        }
        if way == 0 && machine.streams[stream].rules().is_idle() {
            if machine.held[stream].as_ref().is_some_and(|held| held.outs.len() >= 3) {
                machine.flush(stream)?;
            }
            if machine.held[stream].is_none() {
                let Some(slot) = machine.try_take(Pool::Small)? else { return Ok(None) };
                let first_seq = machine.streams[stream].rules().next();
                machine.held[stream] = Some(Held { slot, first_seq, outs: Vec::new() });
            }
            if let Some(held) = &mut machine.held[stream] {
                held.outs.push(out);
            }
            return Ok(Some(machine.streams[stream].rules().hold()));
        }
        machine.flush(stream)?;
        if !machine.streams[stream].rules().is_idle() {
            return Ok(None);
        }
        // Older bytes must not come after these.
        if way != 2 && machine.streams[stream].rules().will_write(out.range()) {
            return Ok(None);
        }
        machine.order_after(stream)?;
        let Out { id, cell, value, host, before } = out;
        let seq = machine.streams[stream].rules().next();
        match way {
            1 if is_pinned(host) => {
                machine.records[id].left = 1;
                machine.enqueue(stream, id, Action::ToHost { cell, value, host, before })?;
            }
            2 | 3 => {
                let pool = if way == 2 { Pool::Small } else { Pool::Large };
                let Some(slot) = machine.try_take(pool)? else { return Ok(None) };
                if let Err(error) = machine.enqueue(stream, id, Action::ToSlot { slot, place: 0, cell, value }) {
                    machine.pools.give_back(slot);
                    return Err(error);
                }
                machine.gpu.record(stream, slot);
                if way == 2 {
                    machine.streams[stream].rules().add_work(seq, Work::Slot { slot, outs: vec![out] });
                } else {
                    let moving = Rc::new(Cell::new(Moving::Open));
                    machine.streams[stream].rules().add_work(seq, Work::Moved(Rc::clone(&moving), out.range()));
                    machine.hand_over(Download { slot, out, moving });
                }
            }
            _ => return Ok(None),
        }
        Ok(Some(machine.streams[stream].rules().issue()))
    }

    /// Copies to another process. The bytes are fetched at the call if possible.
    async fn send(&mut self, stream: usize, cell: usize) -> Result<()> {
        self.order_after(stream, Some(cell), None).await?;
        let value = self.device[cell].value;
        let id = self.record(stream, 2, None);
        let slot = self.fetch(stream, id, cell, value)?;
        let seq = push(&self.world, stream, Op { id, kind: OpKind::Send { cell, value, slot } }).await?;
        self.device[cell].last = Some((stream, seq));
        Ok(())
    }

    fn fetch(&mut self, stream: usize, id: usize, cell: usize, value: u64) -> Result<Option<usize>> {
        let mut machine = self.world.lock();
        machine.check_to_put(stream)?;
        // The list has space, so that the operation is listed in the same step.
        if machine.streams[stream].rules().is_full() || !machine.streams[stream].may_fetch() || self.random.chance(30) {
            return Ok(None);
        }
        machine.order_after(stream)?;
        let Some(slot) = machine.try_take(Pool::Small)? else { return Ok(None) };
        if let Err(error) = machine.enqueue(stream, id, Action::ToSlot { slot, place: 0, cell, value }) {
            machine.pools.give_back(slot);
            return Err(error);
        }
        machine.gpu.record(stream, slot);
        Ok(Some(slot))
    }

    async fn unmap(&mut self, stream: usize, cell: usize) -> Result<()> {
        self.order_after(stream, Some(cell), None).await?;
        let id = self.record(stream, 1, None);
        push(&self.world, stream, Op { id, kind: OpKind::Unmap { cell } }).await?;
        self.device[cell].released = true;
        Ok(())
    }

    /// Lets another process write to the device. Once bytes in a stream for that are reported, operations of all streams see them.
    async fn arrive(&mut self, stream: usize, cell: usize) -> Result<()> {
        self.order_after(stream, Some(cell), None).await?;
        let (before, value) = (self.device[cell].value, self.value());
        let id = self.record(stream, 1, None);
        let seq = push(&self.world, stream, Op { id, kind: OpKind::Arrive { cell, before, value } }).await?;
        self.device[cell] = CellModel { value, last: Some((stream, seq)), released: false };
        if !INCOMING.contains(&stream) || self.random.chance(30) {
            return Ok(());
        }
        wait_issued(&self.world, stream, seq).await?;
        if self.world.lock().fence.set(stream) {
            self.device[cell].last = None;
            return Ok(());
        }
        self.synchronize(stream, seq).await
    }
}
