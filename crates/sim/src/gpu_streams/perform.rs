//! How a thread performs an operation in its turn: the steps of `crates/gpu/src/stream_worker.rs` and `in_flight.rs`.

use super::gpu::Action;
use super::machine::{Download, Machine, PeerProcess, Phase, World, shut_down};
use super::operation::{Moving, Op, OpKind, Out, Work, is_pinned, range};
use super::scheduler::step;
use super::taking::{await_slot, take};
use super::waits::{synchronize, synchronize_unless, wait_issued};
use accord_device::stream::{Access, Settle};
use accord_types::{Error, ErrorCode, Result};
use std::cell::Cell;
use std::collections::VecDeque;
use std::rc::Rc;

/// Most copies to another process that are sent at once.
const ROW_MAX: usize = 3;

/// Performs the operation at `seq`. All earlier ones are in the driver's stream or done.
pub(super) async fn perform(world: &World, stream: usize, seq: u64, op: Op) -> Result<()> {
    let after = world.lock().order_after(stream);
    if let Err(error) = after {
        world.lock().drop_op(&op);
        return Err(error);
    }
    step().await;
    let id = op.id;
    match op.kind {
        OpKind::Device(action) => world.lock().use_memory(stream, id, action),
        OpKind::In { host, cell, before, value } => {
            // The device's engines may be writing pinned memory.
            let access = if is_pinned(host) { Access::Device } else { Access::Program(range(host)) };
            settle(world, stream, seq, access).await?;
            step().await;
            let read = world.lock().read_host(id, host, value);
            upload(world, stream, id, (read, value), cell, before).await
        }
        OpKind::Out(out) => {
            settle(world, stream, seq, Access::Program(out.range())).await?;
            download(world, stream, seq, out).await
        }
        OpKind::Arrive { cell, before, value } => {
            settle(world, stream, seq, Access::OtherEnd).await?;
            world.lock().records[id].elsewhere = PeerProcess::Requested;
            await_elsewhere(world, id).await?;
            upload(world, stream, id, (value, value), cell, before).await
        }
        OpKind::Send { .. } => send(world, stream, seq, op).await,
        OpKind::Wait { other, seq: other_seq } => {
            wait_issued(world, other, other_seq).await?;
            let after = world.lock().mark(other, other_seq)?;
            step().await;
            world.lock().follow(stream, (id, seq), (other, other_seq), after);
            Ok(())
        }
        OpKind::Unmap { cell } => {
            settle(world, stream, seq, Access::Device).await?;
            let mut machine = world.lock();
            if !machine.gpu.lost && machine.gpu.has_access(None, |action| action.cell() == cell) {
                machine.violate(format!("memory is unmapped by operation {id} while the device has commands for it"));
            }
            machine.gpu.memory[cell] = None;
            machine.did(id);
            Ok(())
        }
    }
}

impl Machine {
    /// Calls the driver without a stream's lock.
    fn use_memory(&mut self, stream: usize, id: usize, action: Action) -> Result<()> {
        if self.phase == Phase::Running { self.enqueue(stream, id, action) } else { Err(shut_down()) }
    }
}

/// Waits until the operation at `seq` may access memory outside of its stream's order.
async fn settle(world: &World, stream: usize, seq: u64, access: Access) -> Result<()> {
    let settle = world.lock().streams[stream].settle(seq, access);
    match settle {
        Settle::Nothing => Ok(()),
        Settle::Operations => synchronize(world, stream, seq - 1).await,
        Settle::Driver => synchronize_unless(world, stream, seq - 1, false).await,
    }
}

/// Copies bytes to the device by a slot. `value`: what the copy has to have.
async fn upload(
    world: &World,
    stream: usize,
    id: usize,
    (read, value): (u64, u64),
    cell: usize,
    before: u64,
) -> Result<()> {
    let slot = take(world).await?;
    world.lock().gpu.slots[slot][0] = read;
    step().await;
    let mut machine = world.lock();
    let issued = machine.use_memory(stream, id, Action::FromSlot { slot, cell, before, value });
    if issued.is_err() {
        machine.pools.give_back(slot);
        return issued;
    }
    machine.gpu.record(stream, slot);
    drop(machine);
    step().await;
    world.lock().pools.give_back_in_use(slot);
    Ok(())
}

/// Has the device fill a slot.
async fn fetch(world: &World, stream: usize, id: usize, cell: usize, value: u64) -> Result<usize> {
    let slot = take(world).await?;
    let mut machine = world.lock();
    match machine.use_memory(stream, id, Action::ToSlot { slot, place: 0, cell, value }) {
        Ok(()) => machine.gpu.record(stream, slot),
        Err(error) => {
            machine.pools.give_back(slot);
            return Err(error);
        }
    }
    Ok(slot)
}

/// Copies to the program's memory by a slot and the copying thread.
async fn download(world: &World, stream: usize, seq: u64, out: Out) -> Result<()> {
    let moving = Rc::new(Cell::new(Moving::Open));
    world.lock().streams[stream].rules().add_work(seq, Work::Moved(Rc::clone(&moving), out.range()));
    step().await;
    match fetch(world, stream, out.id, out.cell, out.value).await {
        Ok(slot) => world.lock().hand_over(Download { slot, out, moving }),
        Err(error) => {
            moving.set(Moving::Failed);
            return Err(error);
        }
    }
    Ok(())
}

impl Machine {
    /// Gives a filled slot to the copying thread.
    pub(super) fn hand_over(&mut self, download: Download) {
        if self.phase == Phase::Running {
            return self.downloads.push_back(download);
        }
        download.moving.set(Moving::Failed);
        self.pools.give_back_in_use(download.slot);
    }
}

/// Waits for another process.
async fn await_elsewhere(world: &World, id: usize) -> Result<()> {
    loop {
        let machine = world.lock();
        match machine.records[id].elsewhere {
            PeerProcess::Done => return Ok(()),
            PeerProcess::Failed => return Err(Error::new(ErrorCode::Execution, "the other process has failed")),
            PeerProcess::Idle | PeerProcess::Requested => {}
        }
        if let Some(error) = &machine.failure {
            return Err(error.clone());
        }
        drop(machine);
        step().await;
    }
}

/// Passes the bytes of a copy to the other process.
async fn give(world: &World, stream: usize, seq: u64, op: Op) -> Result<()> {
    let OpKind::Send { cell, value, slot } = op.kind else { return Ok(()) };
    if let Err(error) = settle(world, stream, seq, Access::OtherEnd).await {
        world.lock().drop_op(&op);
        return Err(error);
    }
    let slot = match slot {
        Some(slot) => slot,
        None => fetch(world, stream, op.id, cell, value).await?,
    };
    let filled = await_slot(world, slot).await;
    let mut machine = world.lock();
    if filled.is_ok() {
        machine.verify_slot(op.id, slot, value);
    }
    machine.pools.give_back(slot);
    filled?;
    machine.records[op.id].elsewhere = PeerProcess::Requested;
    machine.streams[stream].arrived(seq);
    Ok(())
}

/// Sends the bytes of a copy, and of those that follow it. They are done when the other process has them, in order.
async fn send(world: &World, stream: usize, seq: u64, op: Op) -> Result<()> {
    let (is_fetched, first) = (accord_device::stream::Operation::is_fetched(&op), op.id);
    give(world, stream, seq, op).await?;
    let (mut row, mut failed) = (VecDeque::new(), Ok(()));
    let mut current = (seq, first);
    loop {
        while row.len() < ROW_MAX && failed.is_ok() {
            let follows = |op: &mut Op| matches!(op.kind, OpKind::Send { slot, .. } if slot.is_some() == is_fetched);
            let next = world.lock().streams[stream].rules().take_next(follows);
            let Some((at, op)) = next else { break };
            row.push_back((at, op.id));
            failed = world.lock().order_after(stream);
            if failed.is_ok() {
                failed = give(world, stream, at, op).await;
            } else {
                world.lock().drop_op(&op);
            }
            if failed.is_err() {
                row.pop_back();
            }
        }
        if failed.is_ok() {
            issue_pipelined(world, stream).await?;
        }
        let more = !row.is_empty() || failed.is_err();
        await_elsewhere(world, current.1).await?;
        let mut machine = world.lock();
        machine.did(current.1);
        if more || current.0 > seq {
            machine.streams[stream].done(current.0);
        }
        drop(machine);
        step().await;
        let Some(next) = row.pop_front() else { return failed };
        current = next;
    }
}

/// Issues listed operations while only another process has to end those in progress.
async fn issue_pipelined(world: &World, stream: usize) -> Result<()> {
    for _ in 0..ROW_MAX {
        let is_such = |op: &mut Op| matches!(op.kind, OpKind::Device(_));
        let next = world.lock().streams[stream].rules().take_pipelined(is_such);
        let Some((_, op)) = next else { break };
        step().await;
        let OpKind::Device(action) = op.kind else { break };
        let mut machine = world.lock();
        machine.order_after(stream)?;
        machine.use_memory(stream, op.id, action)?;
    }
    Ok(())
}
