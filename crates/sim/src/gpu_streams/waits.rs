//! How threads wait for operations: the steps of `crates/gpu/src/stream.rs` and `completing.rs`.

use super::machine::{Awaited, STREAMS, World};
use super::operation::Moving;
use super::scheduler::step;
use accord_device::stream::Progress;
use accord_types::Result;
use std::pin::Pin;

/// Waits until the driver's stream has executed the commands that it has now. Returns `false` if the device is lost.
pub(super) async fn drain(world: &World, stream: usize) -> bool {
    let (enqueued, _) = world.lock().gpu.counts(stream);
    loop {
        let machine = world.lock();
        if machine.gpu.lost || machine.gpu.counts(stream).1 >= enqueued {
            return !machine.gpu.lost;
        }
        drop(machine);
        step().await;
    }
}

/// Waits until all operations up to `seq` are in the driver's stream.
pub(super) async fn wait_issued(world: &World, stream: usize, seq: u64) -> Result<()> {
    loop {
        let mut machine = world.lock();
        machine.flush(stream)?;
        if machine.streams[stream].rules().has_issued(seq) {
            drop(machine);
            step().await;
            return world.lock().check(stream);
        }
        machine.check(stream)?;
        drop(machine);
        step().await;
    }
}

/// Waits until all operations up to `seq` are done.
pub(super) async fn synchronize(world: &World, stream: usize, seq: u64) -> Result<()> {
    synchronize_unless(world, stream, seq, true).await
}

/// Waits as `synchronize`. `knows`: the driver is not asked if all operations up to `seq` are known to be reached.
pub(super) fn synchronize_unless(
    world: &World,
    stream: usize,
    seq: u64,
    knows: bool,
) -> Pin<Box<dyn Future<Output = Result<()>> + '_>> {
    Box::pin(async move {
        for held in 0..STREAMS {
            let _ = world.lock().flush(held);
        }
        world.lock().check(stream)?;
        step().await;
        if !world.lock().streams[stream].rules().has_issued(seq) {
            wait_issued(world, stream, seq).await?;
        }
        let progress = world.lock().streams[stream].progress(seq, knows);
        if let Progress::InDriver { issued } = progress {
            step().await;
            if !drain(world, stream).await {
                return Err(world.lock().driver_failed());
            }
            step().await;
            world.lock().streams[stream].arrived(issued);
        }
        complete(world, stream, seq, true).await?;
        world.lock().check(stream)
    })
}

/// Whether all operations up to `seq` are done.
pub(super) fn reached(world: &World, stream: usize, seq: u64) -> Pin<Box<dyn Future<Output = Result<bool>> + '_>> {
    Box::pin(async move {
        let mut machine = world.lock();
        machine.check(stream)?;
        let performing = machine.streams[stream].rules().performing();
        if performing != 0 && performing <= seq {
            return Ok(false);
        }
        drop(machine);
        step().await;
        let mut machine = world.lock();
        machine.flush(stream)?;
        let progress = machine.streams[stream].progress(seq, true);
        drop(machine);
        match progress {
            Progress::NotIssued => return Ok(false),
            Progress::Done => return Ok(true),
            Progress::OnHost => {}
            Progress::InDriver { issued } => {
                step().await;
                let mut machine = world.lock();
                if machine.gpu.lost {
                    return Err(machine.driver_failed());
                }
                if !machine.gpu.is_empty(stream) {
                    return Ok(false);
                }
                drop(machine);
                // The answer is late.
                step().await;
                step().await;
                world.lock().streams[stream].arrived(issued);
            }
        }
        complete(world, stream, seq, false).await
    })
}

/// Does the host's work up to `seq`. Returns `false` if some is not done and `wait` is not set.
async fn complete(world: &World, stream: usize, seq: u64, wait: bool) -> Result<bool> {
    loop {
        let next = world.lock().next_work(stream, seq);
        let result = match next {
            Ok(None) => return Ok(true),
            Ok(Some(Awaited::Failure)) if wait => Ok(()),
            Ok(Some(Awaited::Failure)) => return Ok(false),
            Ok(Some(Awaited::Moved(moving))) => {
                if moving.get() == Moving::Open && !wait {
                    return Ok(false);
                }
                while moving.get() == Moving::Open {
                    step().await;
                }
                Ok(())
            }
            Ok(Some(Awaited::Other { at, other, seq })) => {
                let there = if wait {
                    synchronize(world, other, seq).await.map(|()| true)
                } else {
                    reached(world, other, seq).await
                };
                step().await;
                match there {
                    Ok(false) => return Ok(false),
                    Ok(true) => {
                        world.lock().streams[stream].rules().work_awaited(at);
                        Ok(())
                    }
                    Err(error) => Err(error),
                }
            }
            Err(error) => Err(error),
        };
        if let Err(error) = result {
            world.lock().streams[stream].rules().fail(error.clone());
            step().await;
            drain(world, stream).await;
            let mut machine = world.lock();
            machine.streams[stream].rules().drained();
            machine.verify_report(stream);
            return Err(error);
        }
        step().await;
    }
}
