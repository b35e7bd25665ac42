//! Decides which thread forwards the bytes of a lane: its reader, or the thread that receives messages. See `streams/forwarding.rs`.

/// Most bytes of a message that the receiving thread forwards, because other messages wait for that thread.
pub(super) const PASSED_MAX: usize = 4 << 10;
/// Number of consecutive short messages before the receiving thread forwards one. The reader of such a lane blocks, and
/// would have to be woken for long ones.
pub(super) const SHORT_RUN: u32 = 8;

/// The thread that holds bytes of a lane that are not yet written to the other lane.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Holder {
    /// No thread.
    #[default]
    None,
    /// The lane's reader, until it reads again.
    Reader,
    /// The thread that receives messages.
    Bringer,
}

/// The state of forwarding for one lane.
#[derive(Debug, Default)]
pub(super) struct Forwarding {
    /// Whether the thread that receives messages may forward them.
    allowed: bool,
    holder: Holder,
    /// Short messages since the last long one.
    short_run: u32,
}

impl Forwarding {
    /// Records that the reader reads again. Returns whether it must wait for the other thread's bytes.
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

    /// Allows the receiving thread to forward messages. The reader may still hold bytes.
    pub(super) fn allow(&mut self) {
        self.allowed = true;
        self.holder = Holder::Reader;
    }

    pub(super) fn is_allowed(&self) -> bool {
        self.allowed
    }

    /// Records an offer, whose bytes the reader receives.
    pub(super) fn offered(&mut self) {
        self.short_run = 0;
    }

    /// Records a message of so many bytes. Returns whether the receiving thread may forward it if no bytes precede it.
    pub(super) fn comes(&mut self, bytes: usize) -> bool {
        self.short_run = if bytes > PASSED_MAX { 0 } else { self.short_run.saturating_add(1) };
        self.allowed && self.holder == Holder::None && self.short_run > SHORT_RUN
    }
}
