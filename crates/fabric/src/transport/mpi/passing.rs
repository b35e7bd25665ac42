//! Which thread forwards the bytes of a lane: the lane's reader, or the thread that receives messages. Forwarding is in `streams/passing.rs`.

/// Most bytes of a message that the receiving thread forwards: it has other messages to receive.
pub(super) const PASSED_MAX: usize = 4 << 10;
/// So many short ones come before one is: a reader that is not needed sleeps, and long ones would find it so.
pub(super) const SHORT_RUN: u32 = 8;

/// Who has bytes of a lane that were not written to the other one yet.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Holder {
    /// No thread.
    #[default]
    Nobody,
    /// The lane's reader, until it comes for more.
    Reader,
    /// The thread that receives messages.
    Bringer,
}

/// How a lane is passed on.
#[derive(Debug, Default)]
pub(super) struct Passing {
    /// Whether the thread that receives messages may forward them.
    allowed: bool,
    holder: Holder,
    /// Short messages since the last long one.
    short_run: u32,
}

impl Passing {
    /// The reader comes for more; whether it has to wait for what was brought before.
    pub(super) fn reader_comes(&mut self) -> bool {
        if self.holder == Holder::Reader {
            self.holder = Holder::Nobody;
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
        self.holder = Holder::Nobody;
    }

    /// Allows the thread that receives messages to forward them. Bytes that the reader has taken so far are not written yet.
    pub(super) fn allow(&mut self) {
        self.allowed = true;
        self.holder = Holder::Reader;
    }

    pub(super) fn is_allowed(&self) -> bool {
        self.allowed
    }

    /// Bytes are lent, to be taken by the reader.
    pub(super) fn offered(&mut self) {
        self.short_run = 0;
    }

    /// A message of so many bytes has come; whether it may be passed on if nothing is before it.
    pub(super) fn comes(&mut self, bytes: usize) -> bool {
        self.short_run = if bytes > PASSED_MAX { 0 } else { self.short_run.saturating_add(1) };
        self.allowed && self.holder == Holder::Nobody && self.short_run > SHORT_RUN
    }
}
