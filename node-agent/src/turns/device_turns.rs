//! The order in which processes use one device: weighted deficit round robin.
//!
//! A process with a turn runs regions, and all others hold theirs back. The device's time is divided in rounds. In each
//! round a process that waits gets credit in proportion to its weight, and the time of its turns is subtracted while
//! others wait. A region that runs past the end of its turn leaves the process in debt. Credit does not outlive its
//! round, so that an idle process saves none. The debt of a process that leaves passes to the next process of its job.
//!
//! A process that begins to wait with credit left gets the next turn, so that a short region of a light session waits for
//! at most one region of another.

use accord_types::{NextTurn, SessionKey};
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// Credit of a whole device in a round, which a share divides. A switch between two processes costs up to 0.2 ms, which is
/// 1 % of the turn of a quarter of a device.
pub(crate) const WHOLE_TURN: Duration = Duration::from_millis(80);
/// The shortest turn while only processes without credit wait. A smaller share gets it in fewer rounds.
pub(crate) const TURN_MIN: Duration = Duration::from_millis(5);
/// The shortest turn while a process with credit waits.
pub(crate) const INTERRUPTED_TURN_MIN: Duration = Duration::from_millis(1);
/// The longest wait for a process to return its turn after its end. Then another process gets a turn, although a region may
/// still run.
pub(crate) const RETURN_MAX: Duration = Duration::from_secs(1);
/// The largest debt.
pub(crate) const DEBT_MAX: Duration = Duration::from_secs(10);
/// Thousandths of a device in its weight.
const WHOLE: i64 = 1_000;
/// Most jobs whose credit is kept.
const KEPT_MAX: usize = 1_024;

/// A process that uses devices of the node.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub(crate) struct Member(pub(crate) u64);

/// The part of a device that a process may use while others want it, too.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Weight {
    /// Thousandths of the device.
    pub(crate) milli: u32,
    /// The job that has this part. Its processes divide it.
    pub(crate) job: Option<SessionKey>,
}

impl Weight {
    /// Returns the nanoseconds in each round.
    fn quantum(self) -> i64 {
        nanos(WHOLE_TURN) / WHOLE * i64::from(self.milli).clamp(1, WHOLE)
    }
}

/// A message to a process: it may run regions in this turn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Hold {
    pub(crate) member: Member,
    /// The number of the process's join.
    pub(crate) join: u64,
    /// The number of the turn. A second message with the same number shortens the turn.
    pub(crate) turn: u64,
    /// Time from now until the turn ends, or earlier once the process has no region to run; `None`: the turn has no end.
    pub(crate) limit: Option<Duration>,
}

/// The turns of one device.
#[derive(Debug, Default)]
pub(crate) struct DeviceTurns {
    members: BTreeMap<Member, Account>,
    /// Accounts of processes that have left, by job. A later process of the job continues one, until its debt is paid.
    kept: BTreeMap<SessionKey, Account>,
    holder: Option<Holder>,
    /// Waiting processes that have credit and did not wait before.
    sparse: VecDeque<Member>,
    /// All other waiting processes.
    waiting: VecDeque<Member>,
    /// Number of rounds that have begun.
    round: u64,
    /// Number of turns that were given.
    turns: u64,
    /// Since when no process waits.
    uncontended_since: Duration,
    /// Time without waiting processes that is not counted as rounds yet.
    uncontended: Duration,
}

#[derive(Clone, Copy, Debug)]
struct Account {
    weight: Weight,
    /// The number of the process's join.
    join: u64,
    /// Nanoseconds left; negative for a debt.
    credit: i64,
    /// The last round whose credit was added.
    round: u64,
    /// A turn that was taken back and not returned, and from when on it is charged.
    overdue: Option<(u64, Duration)>,
}

#[derive(Clone, Copy, Debug)]
struct Holder {
    member: Member,
    join: u64,
    turn: u64,
    since: Duration,
    /// From when on the turn is charged: since another process waits.
    charged_from: Option<Duration>,
    ends: Option<Duration>,
}

fn nanos(time: Duration) -> i64 {
    i64::try_from(time.as_nanos()).unwrap_or(i64::MAX)
}

impl Account {
    /// Adds the credit of all rounds up to `round`, `quantum` nanoseconds each. A debt is paid first, and credit of earlier
    /// rounds is lost.
    fn refill(&mut self, round: u64, quantum: i64) {
        let rounds = i64::try_from(round - self.round).unwrap_or(i64::MAX);
        if rounds > 0 {
            let paid = self.credit.saturating_add(quantum.saturating_mul(rounds - 1));
            self.credit = paid.min(0) + quantum;
            self.round = round;
        }
    }

    fn charge(&mut self, time: Duration) {
        self.credit = self.credit.saturating_sub(nanos(time)).max(-nanos(DEBT_MAX));
    }

    /// Adds the account of another process of the job, which has left, too. Their debts add up.
    fn merge(&mut self, other: Self) {
        let debts = self.credit.min(0) + other.credit.min(0);
        self.credit = if debts < 0 { debts.max(-nanos(DEBT_MAX)) } else { self.credit.min(other.credit) };
    }

    /// Whether a new account has no more credit in `round`.
    fn is_paid(&self, round: u64) -> bool {
        let (mut later, quantum) = (*self, self.weight.quantum());
        later.refill(round, quantum);
        later.credit >= quantum
    }
}

impl DeviceTurns {
    /// Adds a process. Its regions wait for a turn. Messages to it name the `join`.
    pub(crate) fn join(&mut self, now: Duration, member: Member, join: u64, weight: Weight, out: &mut Vec<Hold>) {
        self.leave(now, member, out);
        self.members.insert(member, Account { weight, join, credit: 0, round: self.round, overdue: None });
        let new = (self.quantum(member), self.round);
        let kept = weight.job.and_then(|job| self.kept.remove(&job));
        let (credit, round) = kept.map_or(new, |kept| (kept.credit, kept.round));
        self.members.entry(member).and_modify(|account| (account.credit, account.round) = (credit, round));
        if self.holder.is_none() && !self.is_contended() {
            // The first region of a process that is alone needs no message.
            self.give(now, member, out);
        }
    }

    /// Removes a process that has ended, or has stopped the device.
    pub(crate) fn leave(&mut self, now: Duration, member: Member, out: &mut Vec<Hold>) {
        let was_contended = self.is_contended();
        self.refilled(member);
        self.sparse.retain(|other| *other != member);
        self.waiting.retain(|other| *other != member);
        let holder = self.holder.filter(|holder| holder.member == member);
        if holder.is_some() {
            self.holder = None;
        }
        if let Some(mut account) = self.members.remove(&member) {
            let overdue = account.overdue.take().map(|(_, from)| from);
            if let Some(from) = holder.map_or(overdue, |holder| holder.charged_from) {
                account.charge(now.saturating_sub(from));
            }
            self.keep(account);
        }
        if was_contended && !self.is_contended() {
            self.end_contention(now);
        }
        self.give_next(now, out);
    }

    /// Keeps the account of a process that has left: a process that joins with a new one would be out of debt.
    fn keep(&mut self, mut account: Account) {
        let round = self.round;
        if let Some(job) = account.weight.job {
            if let Some(mut other) = self.kept.remove(&job) {
                other.refill(round, other.weight.quantum());
                account.merge(other);
            }
            self.kept.insert(job, account);
        }
        self.kept.retain(|_, kept| !kept.is_paid(round));
        if self.kept.len() > KEPT_MAX {
            let least = self.kept.iter().max_by_key(|(_, kept)| kept.credit).map(|(job, _)| *job);
            if let Some(job) = least {
                self.kept.remove(&job);
            }
        }
    }

    /// Records that a process has a region to run, and no turn.
    pub(crate) fn wants(&mut self, now: Duration, member: Member, out: &mut Vec<Hold>) {
        let holds = self.holder.is_some_and(|holder| holder.member == member);
        let waits = self.sparse.contains(&member) || self.waiting.contains(&member);
        let Some(account) = self.members.get(&member) else { return };
        if holds || waits || account.overdue.is_some() {
            return;
        }
        self.begin_contention(now);
        let has_credit = self.refilled(member) > 0;
        if has_credit {
            self.sparse.push_back(member);
        } else {
            self.waiting.push_back(member);
        }
        self.shorten(now, out);
        self.give_next(now, out);
    }

    /// Records the end of a turn.
    pub(crate) fn returns(&mut self, now: Duration, member: Member, turn: u64, next: NextTurn, out: &mut Vec<Hold>) {
        let Some(account) = self.members.get_mut(&member) else { return };
        let holder = self.holder.filter(|holder| holder.member == member && holder.turn == turn);
        let charged_from = match (holder, account.overdue) {
            (Some(holder), _) => {
                self.holder = None;
                holder.charged_from
            }
            (None, Some((overdue, from))) if overdue == turn => {
                account.overdue = None;
                Some(from)
            }
            // The turn is of an earlier join of the process, or it does not keep to the protocol.
            (None, _) => {
                if next == NextTurn::Wanted {
                    self.wants(now, member, out);
                }
                return;
            }
        };
        if let Some(from) = charged_from {
            account.charge(now.saturating_sub(from));
        }
        if next == NextTurn::Wanted {
            self.begin_contention(now);
            // A process that was interrupted continues.
            if self.refilled(member) > 0 && holder.is_some() {
                self.waiting.push_front(member);
            } else {
                self.waiting.push_back(member);
            }
            self.shorten(now, out);
        }
        self.give_next(now, out);
    }

    /// Takes a turn back that was not returned in time. To be called at [`DeviceTurns::next_deadline`].
    pub(crate) fn tick(&mut self, now: Duration, out: &mut Vec<Hold>) {
        if self.next_deadline().is_none_or(|deadline| deadline > now) {
            return;
        }
        let Some(holder) = self.holder.take() else { return };
        if let Some(account) = self.members.get_mut(&holder.member) {
            account.overdue = Some((holder.turn, holder.charged_from.unwrap_or(now)));
        }
        self.give_next(now, out);
    }

    /// Returns the time of the next [`DeviceTurns::tick`].
    pub(crate) fn next_deadline(&self) -> Option<Duration> {
        self.holder.filter(|_| self.is_contended()).and_then(|holder| Some(holder.ends? + RETURN_MAX))
    }

    /// Whether a process waits for its turn.
    fn is_contended(&self) -> bool {
        !(self.sparse.is_empty() && self.waiting.is_empty())
    }

    /// Counts the rounds of the time without waiting processes, whose debts decrease meanwhile, and charges the holder from
    /// now on.
    fn begin_contention(&mut self, now: Duration) {
        if self.is_contended() {
            return;
        }
        let uncontended = nanos(self.uncontended + now.saturating_sub(self.uncontended_since)).unsigned_abs();
        let round = nanos(WHOLE_TURN).unsigned_abs();
        self.round += uncontended / round;
        self.uncontended = Duration::from_nanos(uncontended % round);
        self.uncontended_since = now;
        if let Some(mut holder) = self.holder {
            self.refilled(holder.member);
            holder.charged_from = Some(now);
            self.holder = Some(holder);
        }
    }

    /// Charges the holder until now, and no longer.
    fn end_contention(&mut self, now: Duration) {
        self.uncontended_since = now;
        let Some(holder) = &mut self.holder else { return };
        if let (Some(from), Some(account)) = (holder.charged_from.take(), self.members.get_mut(&holder.member)) {
            account.charge(now.saturating_sub(from));
        }
    }

    /// Returns the nanoseconds of a process in each round. Processes of its job that use the device, too, have equal parts.
    fn quantum(&self, member: Member) -> i64 {
        let Some(Account { weight, .. }) = self.members.get(&member) else { return 1 };
        let using = self.sparse.iter().chain(&self.waiting).copied().chain(self.holder.map(|holder| holder.member));
        let of_job = |other: &Member| {
            let job = self.members.get(other).and_then(|other| other.weight.job);
            *other != member && job.is_some() && job == weight.job
        };
        let others = i64::try_from(using.filter(of_job).count()).unwrap_or(i64::MAX - 1);
        (weight.quantum() / (1 + others)).max(1)
    }

    /// Returns the credit of a process in this round.
    fn refilled(&mut self, member: Member) -> i64 {
        let quantum = self.quantum(member);
        let Some(account) = self.members.get_mut(&member) else { return i64::MIN };
        account.refill(self.round, quantum);
        account.credit
    }

    /// Returns the end of the holder's turn.
    fn end_of(&self, holder: &Holder) -> Option<Duration> {
        let from = holder.charged_from?;
        if !self.sparse.is_empty() {
            return Some(holder.since + INTERRUPTED_TURN_MIN);
        }
        let credit = self.members.get(&holder.member).map_or(0, |account| account.credit);
        let credit = Duration::from_nanos(u64::try_from(credit).unwrap_or(0));
        Some((from + credit).max(holder.since + TURN_MIN))
    }

    /// Tells the holder if its turn ends earlier than it knows.
    fn shorten(&mut self, now: Duration, out: &mut Vec<Hold>) {
        let Some(mut holder) = self.holder else { return };
        let ends = self.end_of(&holder);
        if ends.is_some_and(|ends| holder.ends.is_none_or(|known| ends < known)) {
            // A turn ends now at the earliest: its process returns it after this message.
            holder.ends = ends.map(|ends| ends.max(now));
            out.push(holder.message(now));
            self.holder = Some(holder);
        }
    }

    /// Gives the device to the next process that waits, if it is free.
    fn give_next(&mut self, now: Duration, out: &mut Vec<Hold>) {
        if self.holder.is_some() {
            return;
        }
        if let Some(next) = self.take_next() {
            self.give(now, next, out);
        }
    }

    fn take_next(&mut self) -> Option<Member> {
        if let Some(next) = self.sparse.pop_front() {
            return Some(next);
        }
        let credits: Vec<i64> = self.waiting.clone().into_iter().map(|member| self.refilled(member)).collect();
        if credits.iter().all(|credit| *credit <= 0) {
            // The rounds until one of them has credit.
            let rounds_of =
                |(member, credit): (&Member, &i64)| credit.unsigned_abs() / self.quantum(*member).unsigned_abs() + 1;
            self.round += self.waiting.iter().zip(&credits).map(rounds_of).min()?;
        }
        let at = (0..self.waiting.len()).find(|&at| self.refilled(self.waiting[at]) > 0)?;
        self.waiting.remove(at)
    }

    fn give(&mut self, now: Duration, member: Member, out: &mut Vec<Hold>) {
        self.turns += 1;
        let charged_from = self.is_contended().then_some(now);
        if charged_from.is_none() {
            self.uncontended_since = now;
        }
        let join = self.members.get(&member).map_or(0, |account| account.join);
        let mut holder = Holder { member, join, turn: self.turns, since: now, charged_from, ends: None };
        holder.ends = self.end_of(&holder);
        out.push(holder.message(now));
        self.holder = Some(holder);
    }
}

impl Holder {
    fn message(&self, now: Duration) -> Hold {
        let limit = self.ends.map(|ends| ends.saturating_sub(now));
        Hold { member: self.member, join: self.join, turn: self.turn, limit }
    }
}

#[cfg(test)]
mod tests;
