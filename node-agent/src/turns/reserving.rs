//! Reserves the host memory of suspended work, under one lock, before a process takes it.

use super::device_turns::Member;
use super::kept_room::TakenRoom;
use super::service::{OrderAnswer, TurnService, TurnTable};
use super::suspend_room::ProcessRoom;
use crate::inventory::free_memory;
use std::os::fd::AsFd as _;

impl TurnTable {
    /// Returns the host memory of each process's suspended work.
    fn rooms(&self) -> impl Iterator<Item = &ProcessRoom> {
        self.processes.values().map(|process| &process.room)
    }
}

impl TurnService {
    /// Returns the bytes of host memory that are left for suspended work.
    pub(crate) fn room_left(&self) -> u64 {
        let free = free_memory();
        self.room.left(self.table.lock().rooms(), free)
    }

    /// Reserves the host memory that a process needs for its suspension, and sends the answer.
    pub(super) fn reserve(&self, member: Member, needed: u64) {
        let free = free_memory();
        let mut table = self.table.lock();
        let left = self.room.left(table.rooms(), free);
        let Some(process) = table.processes.get_mut(&member) else { return };
        let channel = process.channel.clone();
        let mut files = Vec::new();
        // A process that is not asked to suspend its work gets nothing.
        let left = if process.answer == OrderAnswer::Awaited { left } else { 0 };
        if needed <= left {
            let room = TakenRoom::new(self.room.kept.as_ref(), needed, channel.carries_files());
            files = room.descriptors();
            process.room.free();
            process.room = ProcessRoom::Reserved(room);
        }
        drop(table);
        let granted = if needed <= left { needed } else { left };
        let files: Vec<_> = files.iter().map(|file| file.as_fd()).collect();
        if channel.send_memory(granted, &files).is_err() {
            // Its lane's reader removes the process.
            channel.close();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::device_turns::Weight;
    use super::super::kept_room::KeptRoom;
    use super::super::service::ProcessTurns;
    use super::super::suspend_room::SuspendRoom;
    use super::*;
    use accord_fabric::turn_messages::{MemoryBound, TurnChannel, TurnOrder, TurnRequest};
    use accord_types::{SessionId, SessionKey, SuspendRefusal};
    use std::sync::Arc;

    const SUSPEND: TurnOrder = TurnOrder::Suspend(MemoryBound::OfAgent);

    fn job(number: u8) -> SessionKey {
        SessionKey([number; SessionKey::LEN])
    }

    fn process(service: &Arc<TurnService>, number: u8) -> (ProcessTurns, TurnChannel) {
        let weights = [(0, Weight { milli: 500, job: None })].into();
        let (turns, lane) = service.open(SessionId(number.into()), Some(job(number)), weights).unwrap().unwrap();
        (turns, TurnChannel::new(lane))
    }

    /// Asks for memory, and returns the bytes and the number of files that the agent gives.
    fn ask(process: &TurnChannel, bytes: u64) -> (u64, usize) {
        process.send_request(TurnRequest::Needs { bytes }).unwrap();
        let TurnOrder::Memory { bytes, files } = process.receive_order().unwrap() else { panic!("no answer") };
        let files = if files > 0 { process.receive_files().unwrap().len() } else { 0 };
        (bytes, files)
    }

    #[test]
    fn two_suspensions_at_one_time_never_take_the_same_memory() {
        let room = SuspendRoom { limit: Some(100), kept: None };
        let service = Arc::new(TurnService::new(room));
        let ((_first_turns, first), (_second_turns, second)) = (process(&service, 1), process(&service, 2));
        let refusal = SuspendRefusal::HostMemory { needed: 60, left: 40 };
        std::thread::scope(|scope| {
            let [one, two] = [1, 2].map(|number| {
                let service = &service;
                scope.spawn(move || service.suspend(job(number)))
            });
            assert_eq!((first.receive_order().unwrap(), second.receive_order().unwrap()), (SUSPEND, SUSPEND));
            assert_eq!(ask(&first, 60), (60, 0));
            assert_eq!(ask(&second, 60), (40, 0), "the first suspension has not ended, and its memory is taken twice");
            second.send_request(TurnRequest::Refused(refusal)).unwrap();
            // What a refused suspension had is undone.
            assert_eq!(second.receive_order().unwrap(), TurnOrder::Resume);
            second.send_request(TurnRequest::Resumed).unwrap();
            assert!(two.join().unwrap().unwrap_err().contains("host memory"));
            first.send_request(TurnRequest::Suspended { bytes: 60 }).unwrap();
            assert_eq!(one.join().unwrap(), Ok(()));
        });
        assert_eq!((service.suspended_bytes_of(job(1)), service.suspended_bytes_of(job(2))), (60, 0));
        assert_eq!(ask(&second, 1), (0, 0), "it is not asked to suspend its work");
        std::thread::scope(|scope| {
            let two = scope.spawn(|| service.suspend(job(2)));
            assert_eq!(second.receive_order().unwrap(), SUSPEND);
            assert_eq!(ask(&second, 40), (40, 0));
            // The process has failed to take it, and gives it back.
            second.send_request(TurnRequest::Refused(SuspendRefusal::Busy)).unwrap();
            assert_eq!(second.receive_order().unwrap(), TurnOrder::Resume);
            second.send_request(TurnRequest::Resumed).unwrap();
            assert!(two.join().unwrap().is_err());
            let two = scope.spawn(|| service.suspend(job(2)));
            assert_eq!(second.receive_order().unwrap(), SUSPEND);
            assert_eq!(ask(&second, 41), (40, 0));
            drop(second);
            // It has ended, and so has its suspension.
            assert_eq!(two.join().unwrap(), Ok(()));
        });
    }

    #[test]
    fn kept_memory_goes_to_one_process_and_comes_anew_after_its_resumption() {
        let bytes = 4 << 20;
        let kept = KeptRoom::start(bytes).unwrap();
        let await_ready = |wanted| {
            while kept.ready() != wanted {
                std::thread::sleep(std::time::Duration::from_millis(5));
            }
        };
        await_ready(bytes);
        let service = Arc::new(TurnService::new(SuspendRoom { limit: Some(bytes), kept: Some(kept.clone()) }));
        let (turns, process) = process(&service, 1);
        std::thread::scope(|scope| {
            let suspends = scope.spawn(|| service.suspend(job(1)));
            assert_eq!(process.receive_order().unwrap(), SUSPEND);
            assert_eq!(ask(&process, 5), (5, 1));
            process.send_request(TurnRequest::Suspended { bytes: 5 }).unwrap();
            assert_eq!(suspends.join().unwrap(), Ok(()));
            assert_eq!(kept.ready(), 0);
            let resumes = scope.spawn(|| service.resume(job(1)));
            assert_eq!(process.receive_order().unwrap(), TurnOrder::Resume);
            process.send_request(TurnRequest::Resumed).unwrap();
            assert_eq!(resumes.join().unwrap(), Ok(()));
            await_ready(bytes);
            let suspends = scope.spawn(|| service.suspend(job(1)));
            assert_eq!(process.receive_order().unwrap(), SUSPEND);
            assert_eq!(ask(&process, bytes), (bytes, 1));
            drop(turns);
            assert_eq!(suspends.join().unwrap(), Ok(()));
        });
        await_ready(bytes);
    }
}
