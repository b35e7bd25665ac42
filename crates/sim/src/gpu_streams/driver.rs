//! How threads enqueue operations and perform them, and how the device ends: the steps of `crates/gpu/src/stream.rs` and `device.rs`.

use super::machine::{Phase, STREAMS, World, shut_down};
use super::operation::{Moving, Op};
use super::perform::perform;
use super::scheduler::step;
use super::waits::drain;
use accord_device::stream::{Finish, WorkerStep};
use accord_types::Result;

/// Lists an operation, and waits for space.
pub(super) async fn push(world: &World, stream: usize, op: Op) -> Result<u64> {
    loop {
        let mut machine = world.lock();
        if let Err(error) = machine.check_to_put(stream) {
            machine.drop_op(&op);
            return Err(error);
        }
        if !machine.streams[stream].rules().is_full() {
            let id = op.id;
            let seq = machine.streams[stream].rules().enlist(op);
            machine.records[id].seq = Some(seq);
            return Ok(seq);
        }
        drop(machine);
        step().await;
    }
}

/// Performs an operation on the calling thread if the stream is idle. Otherwise lists it.
pub(super) async fn put_here(world: &World, stream: usize, op: Op) -> Result<u64> {
    let mut machine = world.lock();
    machine.check_to_put(stream)?;
    if !machine.streams[stream].rules().is_idle() {
        drop(machine);
        return push(world, stream, op).await;
    }
    let seq = machine.streams[stream].rules().begin(&op);
    machine.records[op.id].seq = Some(seq);
    drop(machine);
    step().await;
    run(world, stream, seq, op).await;
    world.lock().check(stream)?;
    Ok(seq)
}

/// The worker of a stream.
pub(super) async fn serve(world: World, stream: usize) {
    loop {
        let mut machine = world.lock();
        let lost = machine.failure.is_some();
        let next = machine.streams[stream].worker_step(lost);
        drop(machine);
        match next {
            WorkerStep::Perform(seq, op) => run(&world, stream, seq, op).await,
            WorkerStep::Drop(ops) => {
                step().await;
                ops.iter().for_each(|op| world.lock().drop_op(op));
            }
            WorkerStep::Wait => step().await,
            WorkerStep::End => return,
        }
    }
}

/// Performs the operation at `seq`, whose turn has begun.
async fn run(world: &World, stream: usize, seq: u64, op: Op) {
    let result = perform(world, stream, seq, op).await;
    step().await;
    let finish = world.lock().streams[stream].finish(result);
    if finish == Finish::Drain {
        step().await;
        drain(world, stream).await;
        world.lock().streams[stream].rules().drained();
    }
    world.lock().verify_report(stream);
}

/// Shuts the device down.
pub(super) async fn end(world: &World) {
    let mut machine = world.lock();
    if machine.phase != Phase::Running {
        drop(machine);
        while world.lock().phase != Phase::Ended {
            step().await;
        }
        return;
    }
    machine.failure.get_or_insert(shut_down());
    machine.streams.iter_mut().for_each(|stream| stream.rules().close());
    while let Some(download) = machine.downloads.pop_front() {
        download.moving.set(Moving::Failed);
        machine.pools.give_back_in_use(download.slot);
    }
    // Threads without a stream's lock give the driver nothing from now on.
    machine.phase = Phase::Ending;
    drop(machine);
    step().await;
    for stream in 0..STREAMS {
        let _ = world.lock().flush(stream);
        drain(world, stream).await;
        step().await;
    }
    let mut machine = world.lock();
    machine.phase = Phase::Ended;
    if !machine.gpu.lost && machine.gpu.has_access(None, |_| true) {
        machine.violate("memory is released while the device has commands".to_owned());
    }
}
