//! Chooses the route of a copy between a GPU and other memory, and nowhere else. A function from facts to a route and its reason, without driver, lock
//! or clock. `accord explain copy` prints the choices.

use std::fmt;

/// Most bytes of a copy in that the driver may read from pageable memory: it reads them before its call returns.
pub const TAKEN_MAX: usize = 64 << 10;
/// Most bytes of a copy in, for which the caller waits, that the driver reads directly: using threads and pinned memory
/// would take longer.
pub const WAITED_IN_MAX: usize = 1 << 20;
/// Most bytes of a copy out, for which the caller waits, that the driver writes directly.
pub const WAITED_OUT_MAX: usize = 4 << 20;
/// Most bytes of a copy out that uses a small slot.
pub const SMALL_MAX: usize = 64 << 10;
/// Most bytes of a copy in a row that is held back and merged. For longer ones little would be gained.
pub const ROW_MAX: usize = 8 << 10;

/// The direction of a copy, seen from the device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direction {
    /// To the device.
    In,
    /// From the device.
    Out,
}

/// The time of the question.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum IssuePoint {
    /// At the program's call; no operation is ahead in the stream's list.
    Call,
    /// In its turn, when all earlier operations are issued: a thread of the stream, or a waiter, performs the copy.
    Turn,
}

/// The end of a copy that is not the device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// The program's memory, in this process.
    Program,
    /// Bytes that pass through a source or a sink in pieces: from or to a network, or another device through the host.
    Handed {
        /// Whether waiting for the stream does not include these bytes.
        detached: bool,
    },
    /// Memory of another process of the machine, mapped by the device.
    Mapped,
    /// A GPU of this process: the same or another one.
    Device,
}

/// The state of the program's pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pages {
    /// Accord has not page-locked any of the pages.
    Unregistered,
    /// All pages are locked, except less than a page at each end.
    Registered,
    /// Some pages are locked, or that is about to change.
    Mixed,
}

/// The inputs of the choice, except for the pages, which are queried only if they matter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Facts {
    /// The direction.
    pub direction: Direction,
    /// The time of the question.
    pub at: IssuePoint,
    /// Bytes.
    pub len: usize,
    /// The other end.
    pub end: End,
    /// Whether, for a copy in, the bytes must be read before the call returns; for a copy out, whether the caller waits
    /// anyway.
    pub waits: bool,
    /// The bytes may be copied aside, which few are.
    pub may_take: bool,
    /// Whether the program puts its own work into the stream, which then never waits for the host.
    pub exposed: bool,
    /// Whether the stream is that of synchronous calls: waiting for it does not wait for asynchronous regions.
    pub synchronous: bool,
    /// Whether the copy continues a series of copies of its length, a constant distance apart on the device. No operation
    /// precedes it in the stream's list, and single copies are unobserved.
    pub in_row: bool,
}

impl Facts {
    /// Whether a copy may be held back if it continues a row, as far as known without querying the row and the pages.
    pub fn may_be_held(&self) -> bool {
        let small = match (self.direction, self.end) {
            (_, End::Mapped | End::Device) => false,
            (Direction::In, End::Program) => self.may_take && !self.waits,
            (Direction::In, End::Handed { .. }) => true,
            (Direction::Out, _) => self.waits,
        };
        // When a synchronous call returns, the program's other libraries may access the device's memory. Their work in a shared
        // stream is ordered after earlier operations.
        let apart = !self.synchronous && !self.exposed;
        small && apart && self.at == IssuePoint::Call && (1..=ROW_MAX).contains(&self.len)
    }
}

/// Queries of the program's memory that cost time.
pub trait ProgramMemory {
    /// Whether Accord has page-locked the memory.
    fn pages(&mut self) -> Pages;

    /// Whether the host has still to write bytes of earlier copies out there.
    fn is_unfinished(&mut self) -> bool;

    /// Whether the driver knows the memory as pinned or managed, so that the device's engines can access it.
    fn is_pinned(&mut self) -> bool;
}

/// The end of a copy that is not the program's memory. It is never queried.
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
    /// By the driver, directly from or to the memory, when the stream reaches the copy.
    Direct,
    /// By the driver, directly from the memory, which it reads before its call returns.
    DirectNow,
    /// By the driver, from a copy that is made first.
    Taken,
    /// By the device's engines for the page-locked part. Ends that share a page with other data are copied separately.
    Registered,
    /// As [`Route::Registered`], with the ends copied directly by the driver, because the caller waits.
    RegisteredNow,
    /// Through large pinned slots, which threads fill or empty.
    Staged,
    /// As [`Route::Staged`], after all earlier operations of the stream are done on the host and the device.
    StagedAfterAll,
    /// Through a small pinned slot, which the waiter empties.
    SmallSlot,
    /// Through a small pinned slot, merged with other copies of a row into one copy of the driver.
    Held,
    /// Through pinned slots to a thread of the stream that passes the bytes on.
    Egress,
    /// Through pinned slots, in pieces, which the stream's worker passes on.
    Piecewise,
    /// By the device's engines to the other process's memory.
    Mapped,
    /// By the device's engines to the memory of a GPU of this process.
    Peer,
    /// Not yet: the route is chosen again in the copy's turn.
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

/// Chooses the route.
pub fn route(facts: &Facts, memory: &mut impl ProgramMemory) -> Choice {
    if facts.end == End::Device {
        let reason = "the driver copies from GPU to GPU: neither the program's memory nor a thread takes part";
        return Choice { route: Route::Peer, reason };
    }
    let (route, reason) = match (facts.direction, facts.at) {
        (Direction::In, IssuePoint::Call) => in_at_call(facts, memory),
        (Direction::In, IssuePoint::Turn) => in_at_turn(facts, memory),
        (Direction::Out, IssuePoint::Call) => out_at_call(facts, memory),
        (Direction::Out, IssuePoint::Turn) => out_at_turn(facts, memory),
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
        // Earlier copies out to that memory are not waited for, because the program has not waited for them either.
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
    // Otherwise waiting for the stream could take as long as the program's regions.
    let may_wait = !facts.waits || facts.exposed || facts.synchronous;
    if facts.may_take && facts.len <= TAKEN_MAX {
        return match memory.pages() {
            // Regions may also write to memory that the device's engines can access, so that it is read in its turn.
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
