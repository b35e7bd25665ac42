//! Which thread forwards the bytes of a lane: the lane's reader, or the thread that receives messages. Forwarding is in `streams/passing.rs`.

/// Most bytes of a message that the receiving thread forwards: it has other messages to receive.
pub(super) const PASSED_MAX: usize = 4 << 10;
/// Short messages that come before one is forwarded so: an idle reader blocks, and would have to be woken for long
/// ones.
pub(super) const SHORT_RUN: u32 = 8;

/// The thread that has bytes of a lane that are not yet written to the other lane.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Holder {
    /// No thread.
    #[default]
    None,
    /// The lane's reader, until its next read.
    Reader,
    /// The thread that receives messages.
    Bringer,
}

/// The state of forwarding for one lane.
#[derive(Debug, Default)]
pub(super) struct Passing {
    /// Whether the thread that receives messages may forward them.
    allowed: bool,
    holder: Holder,
    /// Short messages since the last long one.
    short_run: u32,
}

impl Passing {
    /// Records that the reader asks for more. Returns whether it has to wait for the other thread's bytes.
    pub(super) fn reader_comes(&mut self) -> bool {
        if self.holder == Holder::Reader {
            self.holder = Holder::None;
        }
        self.holder == Holder::Bringer
    }

    pub(super) fn reader_takes(&mut self) {
        self.holder = Holder::Reader;
    }

    pub(super) fn bringer_takes(&mut self) {
        self.holder = Holder::Bringer;
    }

    pub(super) fn bringer_is_done(&mut self) {
        self.holder = Holder::None;
    }

    /// Allows the thread that receives messages to forward them. Bytes that the reader has may not be written yet.
    pub(super) fn allow(&mut self) {
        self.allowed = true;
        self.holder = Holder::Reader;
    }

    pub(super) fn is_allowed(&self) -> bool {
        self.allowed
    }

    /// Records an offer, whose bytes the reader takes.
    pub(super) fn offered(&mut self) {
        self.short_run = 0;
    }

    /// Records a message of so many bytes. Returns whether it may be forwarded if no bytes precede it.
    pub(super) fn comes(&mut self, bytes: usize) -> bool {
        self.short_run = if bytes > PASSED_MAX { 0 } else { self.short_run.saturating_add(1) };
        self.allowed && self.holder == Holder::None && self.short_run > SHORT_RUN
    }
}
