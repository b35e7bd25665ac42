//! Orders to suspend and resume the work of a job's processes, over their lanes.

use super::device_turns::Member;
use super::kept_room::TakenRoom;
use super::service::{OrderAnswer, ProcessKind, TurnService, TurnTable};
use super::suspend_room::ProcessRoom;
use accord_fabric::turn_messages::{MemoryBound, TurnOrder};
use accord_types::short_lock::ShortGuard;
use accord_types::{SessionId, SessionKey};
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// The longest wait for a process's answer. It copies gigabytes, and waits for regions and for memory 10 s each. An order and
/// its undoing end within the coordinator's wait of 300 s.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(140);

impl TurnService {
    /// Notes the jobs that an earlier agent has suspended.
    pub(crate) fn were_suspended(&self, jobs: impl IntoIterator<Item = SessionKey>) {
        self.table.lock().suspended.extend(jobs);
    }

    /// Forgets the jobs that are not among these: they have ended.
    pub(crate) fn keep_suspended(&self, jobs: &BTreeSet<SessionKey>) {
        self.table.lock().suspended.retain(|job| jobs.contains(job));
    }

    /// Whether a program of the session takes orders.
    pub(crate) fn has_program(&self, session: SessionId) -> bool {
        let table = self.table.lock();
        table.processes.values().any(|process| process.session == session && process.kind == ProcessKind::Program)
    }

    /// Returns the host memory that the suspended work of a job takes.
    pub(crate) fn suspended_bytes_of(&self, job: SessionKey) -> u64 {
        let table = self.table.lock();
        table.processes.values().filter(|process| process.job == Some(job)).map(|process| process.room.bytes()).sum()
    }

    /// Suspends the work of a job's processes. Each reserves the host memory that it needs.
    ///
    /// # Errors
    /// Returns the reason if one of them refuses. All of them go on then.
    pub(crate) fn suspend(&self, job: SessionKey) -> Result<(), String> {
        let mut table = self.table.lock();
        table.suspended.insert(job);
        let members = table.of_job(job);
        drop(table);
        for member in &members {
            if let Err(why) = self.order(*member, TurnOrder::Suspend(MemoryBound::OfAgent)) {
                // Their memory is free, so that no process refuses.
                if let Err(error) = self.resume(job) {
                    tracing::warn!("a refused suspension can't be undone: {error}");
                }
                return Err(why);
            }
        }
        Ok(())
    }

    /// Resumes the work of a job's processes.
    ///
    /// # Errors
    /// Returns the reason if one of them refuses. All of them stay suspended then.
    pub(crate) fn resume(&self, job: SessionKey) -> Result<(), String> {
        let members = self.table.lock().of_job(job);
        for (at, member) in members.iter().enumerate() {
            if let Err(why) = self.order(*member, TurnOrder::Resume) {
                for resumed in &members[..at] {
                    if let Err(error) = self.order(*resumed, TurnOrder::Suspend(MemoryBound::Unbounded)) {
                        tracing::warn!("a refused resumption can't be undone: {error}");
                    }
                }
                return Err(why);
            }
        }
        let mut table = self.table.lock();
        table.suspended.remove(&job);
        // Processes that have joined meanwhile were suspended as they came.
        let late = table.of_job(job).into_iter().filter(|member| !members.contains(member));
        let late: Vec<_> = late.filter_map(|member| Some(table.processes.get(&member)?.channel.clone())).collect();
        drop(table);
        for channel in late {
            if channel.send_order(TurnOrder::Resume).is_err() {
                channel.close();
            }
        }
        Ok(())
    }

    /// Notes a process's answer. A program that has reconnected says so, too.
    pub(super) fn has_answered(&self, member: Member, answer: OrderAnswer) {
        let mut table = self.table.lock();
        let TurnTable { processes, suspended, .. } = &mut *table;
        let Some(process) = processes.get_mut(&member) else { return };
        process.room = match (answer, std::mem::take(&mut process.room)) {
            (OrderAnswer::Suspended(bytes), ProcessRoom::Reserved(room) | ProcessRoom::Taken(room))
                if room.bytes() == bytes =>
            {
                ProcessRoom::Taken(room)
            }
            // The agent before has reserved it, or nothing was asked for.
            (OrderAnswer::Suspended(bytes), mut earlier) => {
                earlier.free();
                ProcessRoom::Taken(TakenRoom::new(self.room.kept.as_ref(), bytes, false))
            }
            (OrderAnswer::Refused(_), taken @ ProcessRoom::Taken(_)) => taken,
            (_, mut over) => {
                over.free();
                ProcessRoom::None
            }
        };
        let is_asked = process.answer == OrderAnswer::Awaited;
        if is_asked {
            process.answer = answer;
        }
        let is_resumed = process.job.is_none_or(|job| !suspended.contains(&job));
        let is_left = !is_asked && is_resumed && matches!(answer, OrderAnswer::Suspended(_));
        let channel = process.channel.clone();
        drop(table);
        self.answered.notify_all();
        if is_left && channel.send_order(TurnOrder::Resume).is_err() {
            channel.close();
        }
    }

    /// Gives a process an order, and waits for its answer. A process that has ended obeys.
    fn order(&self, member: Member, order: TurnOrder) -> Result<(), String> {
        let mut table = self.table.lock();
        let Some(process) = table.processes.get_mut(&member) else { return Ok(()) };
        process.answer = OrderAnswer::Awaited;
        let suspends = matches!(order, TurnOrder::Suspend(_));
        let (channel, session) = (process.channel.clone(), process.session);
        drop(table);
        if channel.send_order(order).is_err() {
            channel.close();
            return Err(format!("a process of session {session} does not read its orders"));
        }
        let until = Instant::now() + ANSWER_TIMEOUT;
        let mut table = self.table.lock();
        loop {
            let Some(process) = table.processes.get_mut(&member) else { return Ok(()) };
            match std::mem::replace(&mut process.answer, OrderAnswer::NotAsked) {
                OrderAnswer::Suspended(_) if suspends => return Ok(()),
                OrderAnswer::Resumed if !suspends => return Ok(()),
                OrderAnswer::Refused(why) => return Err(format!("session {session}: {why}")),
                // Nothing, or the late answer to an order before.
                _ => process.answer = OrderAnswer::Awaited,
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(format!(
                    "a process of session {session} has not answered for {} s",
                    ANSWER_TIMEOUT.as_secs()
                ));
            }
            table = ShortGuard::wait_timeout(table, &self.answered, left).0;
        }
    }
}

impl TurnTable {
    fn of_job(&self, job: SessionKey) -> Vec<Member> {
        self.processes.iter().filter(|(_, process)| process.job == Some(job)).map(|(member, _)| *member).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::device_turns::Weight;
    use super::super::service::ProcessTurns;
    use super::*;
    use accord_fabric::turn_messages::{TurnChannel, TurnRequest};
    use accord_types::SuspendRefusal;
    use std::sync::Arc;

    const JOB: SessionKey = SessionKey([7; SessionKey::LEN]);

    fn process(service: &Arc<TurnService>, session: u64) -> (ProcessTurns, TurnChannel) {
        let weights = [(0, Weight { milli: 500, job: None })].into();
        let (turns, lane) = service.open(SessionId(session), Some(JOB), weights).unwrap().unwrap();
        (turns, TurnChannel::new(lane))
    }

    fn answer(process: &TurnChannel, order: TurnOrder, answer: TurnRequest) {
        assert_eq!(process.receive_order().unwrap(), order);
        process.send_request(answer).unwrap();
    }

    #[test]
    fn a_process_that_joins_during_a_resumption_goes_on() {
        let service = Arc::<TurnService>::default();
        let (_turns, first) = process(&service, 1);
        std::thread::scope(|scope| {
            let suspends = scope.spawn(|| service.suspend(JOB));
            answer(&first, TurnOrder::Suspend(MemoryBound::OfAgent), TurnRequest::Suspended { bytes: 5 });
            assert_eq!(suspends.join().unwrap(), Ok(()));
            assert_eq!(service.suspended_bytes_of(JOB), 5);
            let resumes = scope.spawn(|| service.resume(JOB));
            assert_eq!(first.receive_order().unwrap(), TurnOrder::Resume);
            let (_turns, second) = process(&service, 2);
            answer(&second, TurnOrder::Suspend(MemoryBound::Unbounded), TurnRequest::Suspended { bytes: 0 });
            first.send_request(TurnRequest::Resumed).unwrap();
            assert_eq!(resumes.join().unwrap(), Ok(()));
            assert_eq!(second.receive_order().unwrap(), TurnOrder::Resume);
        });
    }

    #[test]
    fn a_late_answer_is_not_taken_for_that_to_the_next_order() {
        let service = Arc::<TurnService>::default();
        let (_turns, process) = process(&service, 1);
        std::thread::scope(|scope| {
            let suspends = scope.spawn(|| service.suspend(JOB));
            // As if an earlier resumption had taken too long.
            answer(&process, TurnOrder::Suspend(MemoryBound::OfAgent), TurnRequest::Resumed);
            process.send_request(TurnRequest::Refused(SuspendRefusal::Busy)).unwrap();
            answer(&process, TurnOrder::Resume, TurnRequest::Resumed);
            assert!(suspends.join().unwrap().is_err());
        });
    }

    #[test]
    fn jobs_that_have_ended_are_forgotten() {
        let service = Arc::<TurnService>::default();
        service.were_suspended([JOB]);
        service.keep_suspended(&BTreeSet::from([JOB]));
        assert_eq!(service.table.lock().suspended.len(), 1);
        service.keep_suspended(&BTreeSet::new());
        assert_eq!(service.table.lock().suspended.len(), 0);
    }
}
