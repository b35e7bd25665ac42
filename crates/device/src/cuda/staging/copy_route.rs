//! The way of a copy between a GPU and other memory: decided here and nowhere else. Facts in, a route and its reason out; no
//! driver, no lock, no clock. `accord explain copy` prints what is decided.

use std::fmt;

/// Copies in up to this size may go to the driver as they are: it takes the bytes before it returns.
pub const TAKEN_MAX: usize = 64 << 10;
/// Copies that their caller waits for, up to these sizes, go to the driver as they are, too: bringing threads and pinned memory
/// into play costs more.
pub const WAITED_IN_MAX: usize = 1 << 20;
/// The same as [`WAITED_IN_MAX`] for copies out.
pub const WAITED_OUT_MAX: usize = 4 << 20;
/// Copies out up to this size have slots of their own.
pub const SMALL_MAX: usize = 64 << 10;
/// Copies in a row up to this size are held back, to become one. Longer ones go by themselves: little would be gained.
pub const ROW_MAX: usize = 8 << 10;

/// Whether bytes come to the device or leave it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direction {
    /// To the device.
    In,
    /// From the device.
    Out,
}

/// The time of the question.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum At {
    /// When the program makes the call; nothing is ahead in the stream's list.
    Call,
    /// When everything before is with the driver: a thread of the stream's, or one that waits, works on this copy.
    Turn,
}

/// The end of a copy that is not the device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// The program's memory, in this process.
    Program,
    /// Bytes that a source provides, or a sink takes, piece by piece: a network, or another device through the host.
    Handed {
        /// Whether waiting for the stream excludes waiting for these bytes.
        detached: bool,
    },
    /// Memory of another process of the machine that the device has mapped.
    Mapped,
    /// A GPU of this process: this one, or another.
    Device,
}

/// The state of the program's pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pages {
    /// Accord has not page-locked any of them.
    Unregistered,
    /// All of them, but for less than a page at each end.
    Registered,
    /// Some of them; or that is about to change.
    Mixed,
}

/// The inputs of a route, but for the pages, which are asked about only if they matter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Facts {
    /// Whither.
    pub direction: Direction,
    /// The time of the question.
    pub at: At,
    /// Bytes.
    pub len: usize,
    /// The other end.
    pub end: End,
    /// Whether, for a copy in, the bytes have to be read before the call returns; for a copy out, whether the caller
    /// waits for them anyway.
    pub waits: bool,
    /// The bytes may be copied aside, which few are.
    pub may_take: bool,
    /// The program puts work of its own into the stream, which therefore never waits for the host.
    pub exposed: bool,
    /// Whether it is the stream of synchronous calls: to wait for it does not wait for the program's regions.
    pub synchronous: bool,
    /// Whether it continues a series of copies of this length, a constant distance apart on the device, nothing
    /// precedes it in the stream's list, and single copies are unobserved.
    pub in_row: bool,
}

impl Facts {
    /// Whether a copy is held back if it goes on a row of such, as far as is known without asking about the row and the pages.
    pub fn may_be_held(&self) -> bool {
        let small = match (self.direction, self.end) {
            (_, End::Mapped | End::Device) => false,
            (Direction::In, End::Program) => self.may_take && !self.waits,
            (Direction::In, End::Handed { .. }) => true,
            (Direction::Out, _) => self.waits,
        };
        // When a synchronous call returns, the program's other libraries may look at the device's memory. What they put into a stream
        // that they share comes after what was put in before.
        let apart = !self.synchronous && !self.exposed;
        small && apart && self.at == At::Call && (1..=ROW_MAX).contains(&self.len)
    }
}

/// Queries of the program's memory that cost time.
pub trait ProgramMemory {
    /// Whether Accord has page-locked the memory.
    fn pages(&mut self) -> Pages;

    /// Whether the host has still to write bytes of earlier copies out there.
    fn is_unfinished(&mut self) -> bool;

    /// Whether the driver knows the memory as pinned or managed: then the device's engines reach it.
    fn is_pinned(&mut self) -> bool;
}

/// The end of a copy without memory of the program: it is not asked about.
pub struct NoMemory;

impl ProgramMemory for NoMemory {
    fn pages(&mut self) -> Pages {
        Pages::Unregistered
    }

    fn is_unfinished(&mut self) -> bool {
        false
    }

    fn is_pinned(&mut self) -> bool {
        false
    }
}

/// The route of the bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Route {
    /// By the driver from or to the memory as it is, read or written when the stream gets there.
    Direct,
    /// By the driver from the memory as it is, read before its call returns.
    DirectNow,
    /// Copied aside first, then by the driver.
    Taken,
    /// By the device's engines what is page-locked; what shares a page with something else at the ends goes apart.
    Registered,
    /// The same, and the ends by the driver as they are: the caller waits.
    RegisteredNow,
    /// Through large pinned slots, which threads fill or empty.
    Staged,
    /// The same, after everything before in the stream is done here and on the device.
    StagedAfterAll,
    /// Through a small pinned slot, which the waiter empties.
    SmallSlot,
    /// Through a small pinned slot, with others of a row: one copy of the driver's for all of them.
    Held,
    /// Through pinned slots to a thread of the stream's that hands the bytes on.
    Egress,
    /// Through pinned slots, piece by piece, with the stream's worker handing them over.
    Piecewise,
    /// By the device's engines to the other process's memory.
    Mapped,
    /// By the device's engines to the memory of a GPU of this process.
    Peer,
    /// Not now: it is decided again when its turn has come.
    InTurn,
}

/// A route, and why.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Choice {
    /// The route.
    pub route: Route,
    /// The reason, for people.
    pub reason: &'static str,
}

/// Decides.
pub fn route(facts: &Facts, memory: &mut impl ProgramMemory) -> Choice {
    if facts.end == End::Device {
        let reason = "the driver copies from GPU to GPU: neither the program's memory nor a thread takes part";
        return Choice { route: Route::Peer, reason };
    }
    let (route, reason) = match (facts.direction, facts.at) {
        (Direction::In, At::Call) => in_at_call(facts, memory),
        (Direction::In, At::Turn) => in_at_turn(facts, memory),
        (Direction::Out, At::Call) => out_at_call(facts, memory),
        (Direction::Out, At::Turn) => out_at_turn(facts, memory),
    };
    Choice { route, reason }
}

const HELD: (Route, &str) =
    (Route::Held, "small copies in a row cost the driver one copy each: held back, they are one");

fn in_at_call(facts: &Facts, memory: &mut impl ProgramMemory) -> (Route, &'static str) {
    let is_held = facts.in_row && facts.may_be_held();
    if facts.end != End::Program {
        return if is_held {
            HELD
        } else {
            (Route::InTurn, "the bytes come from elsewhere, when the stream gets there")
        };
    }
    if facts.may_take && facts.len <= TAKEN_MAX && facts.waits {
        // What is still on its way to that memory is not waited for: the program has not waited for it either.
        return match memory.pages() {
            Pages::Unregistered if !memory.is_pinned() => {
                (Route::DirectNow, "the driver takes so few bytes before it returns")
            }
            _ => (
                Route::Taken,
                "the device's engines would read that memory later, and the program may change it before",
            ),
        };
    }
    if memory.is_unfinished() {
        return (Route::InTurn, "bytes of an earlier copy out are still on their way to that memory");
    }
    // Otherwise waiting for the stream could take as long as the program's regions do.
    let may_wait = !facts.waits || facts.exposed || facts.synchronous;
    if facts.may_take && facts.len <= TAKEN_MAX {
        return match memory.pages() {
            // What the device's engines reach, regions may write, too: it is read in its turn.
            Pages::Unregistered if is_held && !memory.is_pinned() => HELD,
            Pages::Registered if is_held => HELD,
            Pages::Unregistered => (Route::Direct, "so few bytes need no staging"),
            Pages::Registered => (Route::Registered, "the memory is page-locked: the device's engines read it"),
            Pages::Mixed => {
                (Route::InTurn, "some of the memory is page-locked, or about to be: the driver must not see it")
            }
        };
    }
    match memory.pages() {
        Pages::Unregistered if memory.is_pinned() => match may_wait {
            true => (Route::Direct, "the memory is pinned: the device's engines read it"),
            false => (Route::InTurn, "the memory is pinned, and must be read before the call returns"),
        },
        Pages::Unregistered if facts.exposed => {
            (Route::DirectNow, "the program shares the stream: nothing may wait for the host in it")
        }
        Pages::Unregistered if facts.waits && facts.len <= WAITED_IN_MAX => {
            (Route::DirectNow, "the caller waits, and threads would cost more than they gain for so few bytes")
        }
        Pages::Registered if may_wait => (Route::Registered, "the memory is page-locked: the device's engines read it"),
        Pages::Registered => (Route::InTurn, "the memory is page-locked, and must be read before the call returns"),
        Pages::Unregistered => (Route::InTurn, "pageable memory is read by threads when the stream gets there"),
        Pages::Mixed => {
            (Route::InTurn, "some of the memory is page-locked, or about to be: the driver must not see it")
        }
    }
}

fn in_at_turn(facts: &Facts, memory: &mut impl ProgramMemory) -> (Route, &'static str) {
    match facts.end {
        End::Program => {}
        End::Mapped => {
            return (Route::Mapped, "the other process's device has mapped this one's memory, and writes there");
        }
        _ => return (Route::Piecewise, "the bytes come from elsewhere: pinned slots of their own, one a stream"),
    }
    match memory.pages() {
        Pages::Unregistered if !memory.is_pinned() => {
            (Route::Staged, "pageable memory: threads copy it into pinned slots")
        }
        Pages::Unregistered if !facts.waits => (Route::Direct, "the memory is pinned: the device's engines read it"),
        Pages::Registered if !facts.waits => {
            (Route::Registered, "the memory is page-locked: the device's engines read it")
        }
        Pages::Mixed => {
            (Route::StagedAfterAll, "some of the memory is page-locked, and the device's engines may be writing it")
        }
        Pages::Unregistered | Pages::Registered => (
            Route::StagedAfterAll,
            "it must be read before the call returns, and the device's engines may be writing it",
        ),
    }
}

fn out_at_call(facts: &Facts, memory: &mut impl ProgramMemory) -> (Route, &'static str) {
    if facts.in_row && facts.may_be_held() {
        return HELD;
    }
    if facts.waits && facts.len <= SMALL_MAX && !facts.exposed && facts.end != End::Mapped {
        return (Route::SmallSlot, "so few bytes stay in a slot of their own until they are waited for");
    }
    match facts.end {
        End::Program => {}
        End::Handed { detached: true } if !facts.exposed => {
            return (Route::Egress, "the bytes leave the process in their own time, and the stream goes on");
        }
        End::Handed { .. } | End::Mapped | End::Device => {
            return (Route::InTurn, "the sink takes the bytes when the stream gets there");
        }
    }
    if memory.is_unfinished() {
        return (Route::InTurn, "older bytes are still on their way to that memory, and must not come after these");
    }
    let waited = facts.waits && facts.len <= WAITED_OUT_MAX || facts.exposed;
    match memory.pages() {
        Pages::Unregistered if waited => {
            (Route::Direct, "the caller waits, and threads would cost more than they gain for so few bytes")
        }
        Pages::Unregistered if memory.is_pinned() => {
            (Route::Direct, "the memory is pinned: the device's engines write it")
        }
        Pages::Registered if waited => (
            Route::RegisteredNow,
            "the memory is page-locked: the device's engines write it, and the caller waits for the ends",
        ),
        Pages::Registered => (Route::Registered, "the memory is page-locked: the device's engines write it"),
        Pages::Mixed if waited => {
            (Route::InTurn, "some of the memory is page-locked: the waiting thread helps copying")
        }
        Pages::Mixed => {
            (Route::Staged, "some of the memory is page-locked, or about to be: the driver must not see it")
        }
        Pages::Unregistered => (Route::Staged, "pageable memory: threads copy it out of pinned slots"),
    }
}

fn out_at_turn(facts: &Facts, memory: &mut impl ProgramMemory) -> (Route, &'static str) {
    match facts.end {
        End::Mapped | End::Device => (Route::Mapped, "the device has mapped the other process's memory"),
        End::Handed { detached: true } => {
            (Route::Egress, "the bytes leave the process in their own time, and the stream goes on")
        }
        End::Handed { detached: false } => (Route::Piecewise, "the stream waits until the sink has taken the bytes"),
        End::Program => match memory.pages() {
            Pages::Unregistered if memory.is_pinned() => {
                (Route::Direct, "the memory is pinned: the device's engines write it")
            }
            Pages::Registered => (Route::Registered, "the memory is page-locked: the device's engines write it"),
            Pages::Unregistered => (Route::Staged, "pageable memory: threads copy it out of pinned slots"),
            Pages::Mixed => {
                (Route::Staged, "some of the memory is page-locked, or about to be: the driver must not see it")
            }
        },
    }
}

impl fmt::Display for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Direct => "direct",
            Self::DirectNow => "direct, read at once",
            Self::Taken => "copied aside, then direct",
            Self::Registered | Self::RegisteredNow => "direct, by page-locked pieces",
            Self::Staged => "staged through pinned slots by threads",
            Self::StagedAfterAll => "staged through pinned slots by threads, after all that stands before it",
            Self::SmallSlot => "through a small pinned slot",
            Self::Held => "held back, then one copy with others through a small pinned slot",
            Self::Egress => "through pinned slots to a thread that sends them on",
            Self::Piecewise => "through pinned slots, piece by piece",
            Self::Mapped => "direct, into memory that is mapped from the other process",
            Self::Peer => "direct, from GPU to GPU",
            Self::InTurn => "decided when its turn has come",
        })
    }
}

#[cfg(test)]
mod tests;
