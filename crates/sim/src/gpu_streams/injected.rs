//! Threads that the program does not have: the device, the copying thread, other processes, and what goes wrong.

use super::driver::end;
use super::machine::{PeerProcess, Phase, STREAMS, World};
use super::operation::Moving;
use super::scheduler::step;
use super::waits::reached;

/// A fault that the simulation injects.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum InjectedFault {
    Nothing,
    /// Copies to and from other processes fail, so many of 100.
    OtherEnds(u64),
    /// The device is lost after so many steps.
    Loss(u64),
    /// The device is shut down after so many steps.
    Shutdown(u64),
}

/// The device, which executes commands in so many of 100 steps.
pub(super) async fn execute(world: World, pace: u64) {
    while world.lock().phase != Phase::Ended {
        let mut machine = world.lock();
        let stream = machine.random.index(STREAMS);
        if machine.random.chance(pace) {
            machine.execute(stream);
        }
        drop(machine);
        step().await;
    }
}

/// The thread that copies from slots to the program's memory.
pub(super) async fn copy(world: World) {
    while world.lock().phase == Phase::Running {
        step().await;
        let mut machine = world.lock();
        let count = machine.downloads.len();
        if count == 0 {
            continue;
        }
        let at = machine.random.index(count);
        let slot = machine.downloads[at].slot;
        if machine.gpu.lost || machine.gpu.has_happened(slot) {
            let Some(download) = machine.downloads.remove(at) else { continue };
            if machine.gpu.lost {
                machine.driver_failed();
                download.moving.set(Moving::Failed);
            } else {
                machine.write_host(slot, 0, download.out);
                download.moving.set(Moving::Done);
            }
            machine.pools.give_back(slot);
        }
    }
}

/// Other processes, which send bytes and report others landed.
pub(super) async fn answer(world: World, injected: InjectedFault) {
    while world.lock().phase != Phase::Ended {
        step().await;
        let mut machine = world.lock();
        let requests =
            machine.records.iter().enumerate().filter(|(_, record)| record.elsewhere == PeerProcess::Requested);
        let requests: Vec<_> = requests.map(|(id, _)| id).collect();
        if requests.is_empty() || !machine.random.chance(20) {
            continue;
        }
        let id = requests[machine.random.index(requests.len())];
        let fails = matches!(injected, InjectedFault::OtherEnds(percent) if machine.random.chance(percent));
        machine.records[id].elsewhere = if fails { PeerProcess::Failed } else { PeerProcess::Done };
    }
}

/// The thread that polls for the program.
pub(super) async fn notify(world: World) {
    loop {
        step().await;
        let mut machine = world.lock();
        let count = machine.notices.len();
        if count == 0 {
            if machine.enqueued {
                return;
            }
            continue;
        }
        let at = machine.random.index(count);
        let (stream, seq) = machine.notices.swap_remove(at);
        drop(machine);
        let outcome = reached(&world, stream, seq).await;
        let mut machine = world.lock();
        match outcome {
            Ok(true) => machine.verify(stream, seq),
            Ok(false) => machine.notices.push((stream, seq)),
            Err(_) if machine.troubled || machine.phase != Phase::Running => {}
            Err(error) => machine.violate(format!("a notice of stream {stream} fails: {error}")),
        }
    }
}

/// Makes trouble.
pub(super) async fn injected(world: World, injected: InjectedFault) {
    let (InjectedFault::Loss(steps) | InjectedFault::Shutdown(steps)) = injected else { return };
    for _ in 0..steps {
        step().await;
    }
    if injected == InjectedFault::Loss(steps) {
        world.lock().gpu.lost = true;
    } else {
        end(&world).await;
    }
}
