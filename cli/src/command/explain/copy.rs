//! `accord explain copy`: the way of the bytes, by the function that decides it in programs.

use crate::args::CopyMemory;
use crate::failure::{Failure, Result};
use crate::output::{Table, bytes, print, show};
use accord_gpu::copy_route::{self, Choice, Direction, End, Facts, IssuePoint, Pages, ProgramMemory, Route, SMALL_MAX};
use serde_json::json;

/// The transport to and from the other memory.
const BETWEEN: &str =
    "\nbetween machines the bytes go through TLS; `accord info` says for each node what carries them (ROUTE)\n";

/// A decision, and its time.
struct Step {
    when: &'static str,
    choice: Choice,
}

/// Runs `accord explain copy`.
///
/// # Errors
/// Returns an error if none of the memories is a GPU of the program's process.
pub(super) fn explain(from: CopyMemory, to: CopyMemory, size: u64, in_queue: bool, as_json: bool) -> Result<u8> {
    let steps = steps(from, to, size, in_queue).ok_or_else(|| {
        Failure::new("one of the two memories has to be a GPU of the program's process: name it `gpu`".to_owned())
    })?;
    if as_json {
        let steps = steps.iter().map(|step| {
            let (route, reason) = (step.choice.route.to_string(), step.choice.reason);
            json!({ "when": step.when, "route": route, "reason": reason })
        });
        let steps: Vec<_> = steps.collect();
        let all = json!({ "from": from.name(), "to": to.name(), "bytes": size, "async": in_queue, "steps": steps });
        print(&format!("{all:#}\n"));
        return Ok(0);
    }
    let queue = if in_queue { "in an asynchronous queue" } else { "synchronously" };
    let mut table = Table::new(&["WHEN", "ROUTE", "WHY"]);
    for step in &steps {
        table.row([step.when.to_owned(), step.choice.route.to_string(), step.choice.reason.to_owned()]);
    }
    let between = if [from, to].contains(&CopyMemory::Elsewhere) { BETWEEN } else { "" };
    show(&format!("{} from {} to {}, {queue}\n\n{table}{between}", bytes(size), from.name(), to.name()));
    Ok(0)
}

/// Returns the decisions at the call, and at the copy's turn if it must wait for that.
fn steps(from: CopyMemory, to: CopyMemory, size: u64, in_queue: bool) -> Option<Vec<Step>> {
    let (direction, other) = match (from, to) {
        (CopyMemory::Gpu, other) => (Direction::Out, other),
        (other, CopyMemory::Gpu) => (Direction::In, other),
        _ => return None,
    };
    let (end, mut memory) = match other {
        CopyMemory::Host => (End::Program, DescribedMemory { pages: Pages::Unregistered, pinned: false }),
        CopyMemory::Pinned => (End::Program, DescribedMemory { pages: Pages::Unregistered, pinned: true }),
        CopyMemory::Locked => (End::Program, DescribedMemory { pages: Pages::Registered, pinned: true }),
        CopyMemory::Gpu => (End::Device, NOTHING),
        // The process with the bytes writes: for a copy in, the other one.
        CopyMemory::SameHost => (End::Mapped, NOTHING),
        CopyMemory::Elsewhere => (End::Handed { detached: false }, NOTHING),
    };
    let len = usize::try_from(size).unwrap_or(usize::MAX);
    let program = end == End::Program;
    // The same call as the client of a local device makes.
    let waits = program && (!in_queue || direction == Direction::Out && len <= SMALL_MAX);
    let facts = Facts {
        direction,
        at: IssuePoint::Call,
        len,
        end,
        waits,
        may_take: program && direction == Direction::In,
        exposed: false,
        synchronous: !in_queue,
        in_row: false,
    };
    let choice = copy_route::route(&facts, &mut memory);
    let mut steps = vec![Step { when: "at the call", choice }];
    if choice.route == Route::InTurn {
        let choice = copy_route::route(&Facts { at: IssuePoint::Turn, ..facts }, &mut memory);
        steps.push(Step { when: "in its turn", choice });
    }
    let in_row = Facts { in_row: true, ..facts };
    let choice = copy_route::route(&in_row, &mut memory);
    if choice.route == Route::Held {
        steps.push(Step { when: "in a row of such", choice });
    }
    Some(steps)
}

/// Memory as described on the command line.
struct DescribedMemory {
    pages: Pages,
    pinned: bool,
}

const NOTHING: DescribedMemory = DescribedMemory { pages: Pages::Unregistered, pinned: false };

impl ProgramMemory for DescribedMemory {
    fn pages(&mut self) -> Pages {
        self.pages
    }

    fn is_unfinished(&mut self) -> bool {
        false
    }

    fn is_pinned(&mut self) -> bool {
        self.pinned
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn routes(from: CopyMemory, to: CopyMemory, size: u64, in_queue: bool) -> Vec<Route> {
        steps(from, to, size, in_queue).unwrap().iter().map(|step| step.choice.route).collect()
    }

    #[test]
    fn a_copy_is_explained_as_programs_make_it() {
        use CopyMemory::{Elsewhere, Gpu, Host, Locked, Pinned, SameHost};
        assert_eq!(routes(Host, Gpu, 8, false), [Route::DirectNow]);
        assert_eq!(routes(Host, Gpu, 1 << 20, false), [Route::DirectNow]);
        assert_eq!(routes(Host, Gpu, 1 << 30, false), [Route::InTurn, Route::Staged]);
        assert_eq!(routes(Pinned, Gpu, 1 << 30, true), [Route::Direct]);
        assert_eq!(routes(Locked, Gpu, 1 << 30, false), [Route::Registered]);
        assert_eq!(routes(Gpu, Host, 8, true), [Route::SmallSlot, Route::Held]);
        assert_eq!(routes(Gpu, Host, 8, false), [Route::SmallSlot]);
        assert_eq!(routes(Host, Gpu, 8, true), [Route::Direct, Route::Held]);
        assert_eq!(routes(Gpu, Host, 1 << 30, true), [Route::Staged]);
        assert_eq!(routes(Gpu, Gpu, 1 << 30, true), [Route::Peer]);
        assert_eq!(routes(Gpu, SameHost, 1 << 30, true), [Route::InTurn, Route::Mapped]);
        assert_eq!(routes(Elsewhere, Gpu, 1 << 30, true), [Route::InTurn, Route::Piecewise]);
        assert!(steps(Host, Pinned, 1, false).is_none());
    }
}
