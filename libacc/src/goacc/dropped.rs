//! What GCC drops before it calls: a whole `declare` variable in `update` (OpenACC 3.3, 2.14.4).
//!
//! Where such variables are all that an `update` names, the call arrives without any. GCC refuses an `update` that names nothing, so
//! nothing else looks like it. In `data`, `enter data` and `exit data` whole `declare` variables are dropped too; those are present for
//! good, so the clauses would not have copied anything.

use crate::{output, settings, source};
use accord_types::{Error, ErrorCode, Result};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Most places that are told of.
const PLACES_MAX: usize = 64;

/// Calls that were told of.
static TOLD: [AtomicUsize; PLACES_MAX] = [const { AtomicUsize::new(0) }; PLACES_MAX];

/// The `update` that the thread is in copies nothing: an error, or said once for each place.
///
/// # Errors
/// Returns `acc_error_invalid_argument` unless `ACCORD_DROPPED_UPDATES` asks for a warning.
#[cold]
pub(super) fn update() -> Result<()> {
    if !settings::warns_of_dropped_updates()? {
        let cause = "it names whole declare variables only, which GCC leaves out: nothing is copied";
        return Err(Error::new(ErrorCode::InvalidArgument, cause)
            .remedy("compile the program with accord cc, c++ or fc, which mend that"));
    }
    let Some(call) = source::caller() else { return Ok(()) };
    if is_first(&TOLD, call) {
        let place = source::apart(move || source::place(call)).flatten();
        let site = place.map_or(String::new(), |place| format!(" ({place})"));
        output::print(&format!(
            "accord: update{site} copies nothing: it names whole declare variables only, which GCC leaves out; compile the program \
             with accord cc, c++ or fc, which mend that\n"
        ));
    }
    Ok(())
}

/// Whether `call` is new, and there is room to note it.
fn is_first(told: &[AtomicUsize], call: usize) -> bool {
    for place in told {
        match place.compare_exchange(0, call, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => return true,
            Err(known) if known == call => return false,
            Err(_) => {}
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_place_is_told_of_once_while_there_is_room() {
        let told = [const { AtomicUsize::new(0) }; 2];
        let first: Vec<bool> = [8, 8, 9, 8, 10, 9].into_iter().map(|call| is_first(&told, call)).collect();
        assert_eq!(first, [true, false, true, false, false, false]);
    }
}
