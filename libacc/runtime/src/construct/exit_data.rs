//! Unstructured data: `enter data` and `exit data` (OpenACC 3.3, 2.6.6).

use super::by_pointer::{Pointed, PointerWord};
use super::component::unknown_component;
use super::component::with_ranges;
use super::kind::Kind;
use super::map::Mode;
use super::missing::partly_present;
use super::{ConstructExit, Entries, on_host};
use crate::device::Device;
use crate::present::{Attachment, Counter, EntryId, Found};
use crate::{LocalThread, Runtime};
use accord_types::{AsyncArg, Error, ErrorCode, HostRange, QueueId, Result};

impl Runtime {
    /// Implements `enter data` (2.6.6).
    ///
    /// # Errors
    /// Returns the errors of [`Runtime::parallel`].
    pub fn enter_data(
        &self,
        t: &mut LocalThread,
        flags: i32,
        entries: &mut Entries<'_>,
        async_: i32,
        waits: &[i32],
    ) -> Result<()> {
        let enter = |t: &mut LocalThread, device: &Device, queue, entries: &mut Entries<'_>| {
            self.enter(t, device, queue, Mode::Enter, entries)
        };
        self.unstructured(t, flags, entries, async_, waits, enter).map_err(|error| error.call("enter data"))
    }

    /// Implements `exit data` (2.6.6).
    ///
    /// # Errors
    /// Returns the errors of [`Runtime::parallel`].
    pub fn exit_data(
        &self,
        t: &mut LocalThread,
        flags: i32,
        entries: &mut Entries<'_>,
        async_: i32,
        waits: &[i32],
    ) -> Result<()> {
        let exit = |t: &mut LocalThread, device: &Device, queue, entries: &mut Entries<'_>| {
            self.exit(t, device, queue, entries)
        };
        self.unstructured(t, flags, entries, async_, waits, exit).map_err(|error| error.call("exit data"))
    }

    /// Implements `enter data` or `exit data`, distinguished by the entries (compilers before GCC 12).
    ///
    /// # Errors
    /// Returns the errors of [`Runtime::parallel`].
    pub fn enter_exit_data(
        &self,
        t: &mut LocalThread,
        flags: i32,
        entries: &mut Entries<'_>,
        async_: i32,
        waits: &[i32],
    ) -> Result<()> {
        for word in entries.kinds {
            match Kind::decode(*word).map_err(|error| error.call("enter data"))? {
                Kind::Pointer | Kind::Descriptor | Kind::Struct => {}
                Kind::Release { .. } | Kind::Detach { .. } => {
                    return self.exit_data(t, flags, entries, async_, waits);
                }
                Kind::Data(data) if data.copy_out && !data.copy_in => {
                    return self.exit_data(t, flags, entries, async_, waits);
                }
                _ => break,
            }
        }
        self.enter_data(t, flags, entries, async_, waits)
    }

    /// Runs the common part of directives without a region: condition, device, queue, `wait` clause.
    pub(super) fn unstructured(
        &self,
        t: &mut LocalThread,
        flags: i32,
        entries: &mut Entries<'_>,
        async_: i32,
        waits: &[i32],
        act: impl FnOnce(&mut LocalThread, &Device, QueueId, &mut Entries<'_>) -> Result<()>,
    ) -> Result<()> {
        if on_host(flags) {
            return Ok(());
        }
        let arg = AsyncArg::from_raw(async_)?;
        let Some(device) = self.target(t)? else { return Ok(()) };
        let queue = t.queue(arg);
        if !waits.is_empty() {
            device.wait_clause(t, queue, waits.iter().copied())?;
        }
        with_ranges(&*self.host, device, entries, |entries| act(t, device, queue, entries))
            .map_err(|error| device.place(error))
    }

    fn exit(&self, t: &mut LocalThread, device: &Device, queue: QueueId, entries: &Entries<'_>) -> Result<()> {
        let words = self.released_words(entries).map_err(|error| device.place(error))?;
        let plan = &mut t.scratch.plan;
        device.begin(plan, queue);
        let mut state = device.lock();
        let mut leaving = ConstructExit { state: &mut state, plan, counter: Counter::Dynamic };
        let parts = || entries.hosts.iter().zip(entries.sizes).zip(entries.kinds);
        // All entries are checked before anything changes.
        for (i, ((host, size), word)) in parts().enumerate() {
            let range = HostRange { start: *host, len: *size };
            exit_action(Kind::decode(*word).map_err(|error| device.place(error))?, *word, range)
                .and_then(|action| match action {
                    Action::Release { out: true, .. } if let Some(within) = entries.within(i) => {
                        Err(unknown_component(within))
                    }
                    Action::Release { .. } => find_to_release(&leaving, range).map(|_| ()),
                    Action::Detach { .. } | Action::Nothing => Ok(()),
                })
                .map_err(|error| device.place(error))?;
        }
        let pointed: Vec<Pointed> =
            words.iter().filter_map(|word| word.pointed(&leaving.state.table, entries.hosts)).collect();
        let pointed = |i: usize| pointed.iter().find(|one| one.entry == i);
        // Detaches before any copy back.
        for (i, ((host, size), word)) in parts().enumerate() {
            let range = HostRange { start: *host, len: *size };
            match exit_action(Kind::decode(*word)?, *word, range)? {
                Action::Detach { finalize } => {
                    if let Found::Whole(id) = leaving.state.table.find(*host, Attachment::BYTES) {
                        leaving.detach(id, *host, finalize, &*self.host);
                    }
                }
                Action::Release { finalize, .. } => {
                    if let Some(holder) = pointed(i).and_then(|one| one.member) {
                        leaving.detach(holder, *host, finalize, &*self.host);
                    }
                }
                Action::Nothing => {}
            }
        }
        for (i, ((host, size), word)) in parts().enumerate() {
            let range = HostRange { start: *host, len: *size };
            let Action::Release { out, finalize } = exit_action(Kind::decode(*word)?, *word, range)? else { continue };
            if let Some(Pointed { array, member, .. }) = pointed(i) {
                if let Some(holder) = *member {
                    leaving.give_up_part(holder, range, None, finalize, true);
                }
                if let Some(entry) = leaving.state.table.get(*array) {
                    let out = out.then_some((entry.range(), None));
                    leaving.give_up(*array, out, false, finalize);
                }
            } else if let Some(id) = find_to_release(&leaving, range)? {
                let table = &leaving.state.table;
                let names_nothing = |word: &PointerWord| word.entry == i && word.names_nothing(table);
                let is_ended = table.members.has(range) && words.iter().any(names_nothing);
                let is_pointer = is_ended || entries.detaches(range.start)?;
                let out = out.then_some((range, entries.spaced(i)));
                leaving.give_up_part(id, range, out, finalize, is_pointer);
            }
        }
        drop(state);
        self.finish(device, queue, plan)
    }

    /// Returns the possible pointers among the bytes to release.
    fn released_words(&self, entries: &Entries<'_>) -> Result<Vec<PointerWord>> {
        let mut words = Vec::new();
        for (i, ((host, size), word)) in entries.hosts.iter().zip(entries.sizes).zip(entries.kinds).enumerate() {
            let range = HostRange { start: *host, len: *size };
            if let Action::Release { .. } = exit_action(Kind::decode(*word)?, *word, range)? {
                words.extend(PointerWord::read(i, range, &*self.host));
            }
        }
        Ok(words)
    }
}

/// The action of `exit data` on one entry.
enum Action {
    Release { out: bool, finalize: bool },
    Detach { finalize: bool },
    Nothing,
}

fn exit_action(kind: Kind, word: u16, range: HostRange) -> Result<Action> {
    Ok(match kind {
        _ if range.start == 0 => Action::Nothing,
        Kind::Detach { finalize } => Action::Detach { finalize },
        // Includes negative lengths: see `Entries::len_of`.
        Kind::Release { .. } | Kind::Data(_) if range.len.cast_signed() <= 0 => Action::Nothing,
        Kind::Release { finalize } => Action::Release { out: false, finalize },
        Kind::Data(data) if data.copy_out && !data.copy_in => {
            Action::Release { out: true, finalize: Kind::is_forced(word) }
        }
        // Pointers and descriptors are not counted, neither here nor on entering.
        Kind::Pointer | Kind::Descriptor | Kind::Struct | Kind::Zero | Kind::DeleteZero | Kind::DevicePtr => {
            Action::Nothing
        }
        other => {
            let cause = format!("an entry of kind {other:?} begins data where data ends");
            return Err(Error::new(ErrorCode::InvalidArgument, cause));
        }
    })
}

/// Finds the entry that contains a range. Absent data is no error here.
fn find_to_release(leaving: &ConstructExit<'_>, range: HostRange) -> Result<Option<EntryId>> {
    match leaving.state.table.find(range.start, range.len) {
        Found::Absent => Ok(None),
        Found::Whole(id) => Ok(Some(id)),
        Found::Partly(_) => Err(partly_present(range, &leaving.state.table)),
    }
}
