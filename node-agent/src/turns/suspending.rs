//! Orders to suspend and resume the work of a job's processes, over their lanes.

use super::device_turns::Member;
use super::service::{OrderAnswer, ProcessKind, TurnService, TurnTable};
use accord_fabric::turn_messages::TurnOrder;
use accord_types::short_lock::ShortGuard;
use accord_types::{SessionId, SessionKey};
use std::time::{Duration, Instant};

/// The longest wait for a process's answer. It copies gigabytes, and waits for regions and for memory 10 s each. An order and
/// its undoing end within the coordinator's wait of 300 s.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(140);

impl TurnService {
    /// Notes the jobs that an earlier agent has suspended.
    pub(crate) fn were_suspended(&self, jobs: impl IntoIterator<Item = SessionKey>) {
        self.table.lock().suspended.extend(jobs);
    }

    /// Whether a program of the session takes orders.
    pub(crate) fn has_program(&self, session: SessionId) -> bool {
        let table = self.table.lock();
        table.processes.values().any(|process| process.session == session && process.kind == ProcessKind::Program)
    }

    /// Returns the host memory that suspended work takes.
    pub(crate) fn suspended_bytes(&self) -> u64 {
        self.table.lock().processes.values().map(|process| process.suspended_bytes).sum()
    }

    /// Returns the host memory that the suspended work of a job takes.
    pub(crate) fn suspended_bytes_of(&self, job: SessionKey) -> u64 {
        let table = self.table.lock();
        table.processes.values().filter(|process| process.job == Some(job)).map(|process| process.suspended_bytes).sum()
    }

    /// Suspends the work of a job's processes, which may take `room` bytes of host memory together.
    ///
    /// # Errors
    /// Returns the reason if one of them refuses. All of them go on then.
    pub(crate) fn suspend(&self, job: SessionKey, room: u64) -> Result<(), String> {
        let mut table = self.table.lock();
        table.suspended.insert(job);
        let members = table.of_job(job);
        drop(table);
        let mut left = room;
        for member in &members {
            match self.order(*member, TurnOrder::Suspend { room: left }) {
                Ok(bytes) => left = left.saturating_sub(bytes),
                Err(why) => {
                    // Their memory is free, so that no process refuses.
                    if let Err(error) = self.resume(job) {
                        tracing::warn!("a refused suspension can't be undone: {error}");
                    }
                    return Err(why);
                }
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
                    if let Err(error) = self.order(*resumed, TurnOrder::Suspend { room: u64::MAX }) {
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
        process.suspended_bytes = match answer {
            OrderAnswer::Suspended(bytes) => bytes,
            OrderAnswer::Resumed => 0,
            _ => process.suspended_bytes,
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

    /// Gives a process an order. Returns the bytes of host memory that its suspended work takes; 0 for a process that has ended.
    fn order(&self, member: Member, order: TurnOrder) -> Result<u64, String> {
        let mut table = self.table.lock();
        let Some(process) = table.processes.get_mut(&member) else { return Ok(0) };
        process.answer = OrderAnswer::Awaited;
        let suspends = matches!(order, TurnOrder::Suspend { .. });
        let (channel, session) = (process.channel.clone(), process.session);
        drop(table);
        if channel.send_order(order).is_err() {
            channel.close();
            return Err(format!("a process of session {session} does not read its orders"));
        }
        let until = Instant::now() + ANSWER_TIMEOUT;
        let mut table = self.table.lock();
        loop {
            let Some(process) = table.processes.get_mut(&member) else { return Ok(0) };
            match std::mem::replace(&mut process.answer, OrderAnswer::NotAsked) {
                OrderAnswer::Suspended(bytes) if suspends => return Ok(bytes),
                OrderAnswer::Resumed if !suspends => return Ok(0),
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
