//! Properties of every route, for all facts, and some routes by name.

use super::*;

struct TestFacts {
    pages: Pages,
    pinned: bool,
    unfinished: bool,
    /// Number of queries of the driver.
    asked: usize,
}

impl ProgramMemory for TestFacts {
    fn pages(&mut self) -> Pages {
        self.pages
    }

    fn is_unfinished(&mut self) -> bool {
        self.unfinished
    }

    fn is_pinned(&mut self) -> bool {
        self.asked += 1;
        self.pinned
    }
}

const PAGEABLE: TestFacts = TestFacts { pages: Pages::Unregistered, pinned: false, unfinished: false, asked: 0 };

fn facts(direction: Direction, at: IssuePoint, len: usize, waits: bool) -> Facts {
    let (may_take, exposed, synchronous, in_row) = (false, false, false, false);
    Facts { direction, at, len, end: End::Program, waits, may_take, exposed, synchronous, in_row }
}

/// Calls `check` with all combinations of facts that there can be.
fn for_all(mut check: impl FnMut(&Facts, &mut TestFacts, Choice)) {
    let lengths = [
        0,
        1,
        ROW_MAX,
        ROW_MAX + 1,
        TAKEN_MAX,
        TAKEN_MAX + 1,
        WAITED_IN_MAX,
        WAITED_IN_MAX + 1,
        WAITED_OUT_MAX,
        WAITED_OUT_MAX + 1,
    ];
    let ends = [End::Program, End::Handed { detached: false }, End::Handed { detached: true }, End::Mapped];
    for bits in 0..1u32 << 9 {
        let bit = |at: u32| bits >> at & 1 == 1;
        for (len, end) in lengths.into_iter().flat_map(|len| ends.map(|end| (len, end))) {
            for pages in [Pages::Unregistered, Pages::Registered, Pages::Mixed] {
                let direction = if bit(0) { Direction::In } else { Direction::Out };
                let at = if bit(1) { IssuePoint::Call } else { IssuePoint::Turn };
                let facts = Facts {
                    end,
                    may_take: bit(3),
                    exposed: bit(4),
                    synchronous: bit(5),
                    in_row: bit(8),
                    ..facts(direction, at, len, bit(2))
                };
                let mut memory = TestFacts { pages, pinned: bit(6), unfinished: bit(7), asked: 0 };
                let choice = route(&facts, &mut memory);
                check(&facts, &mut memory, choice);
            }
        }
    }
}

#[test]
fn host_memory_is_not_read_after_the_call_returns() {
    for_all(|facts, _, choice| {
        let later = matches!(choice.route, Route::Direct | Route::Registered);
        if facts.direction == Direction::In && facts.end == End::Program && facts.waits && later {
            // Waiting for the stream must include waiting for the copy.
            assert!(facts.at == IssuePoint::Call && (facts.exposed || facts.synchronous), "{facts:?}: {choice:?}");
        }
    });
}

#[test]
fn the_driver_sees_no_memory_that_is_page_locked_in_part() {
    for_all(|facts, memory, choice| {
        if facts.end == End::Program && memory.pages == Pages::Mixed {
            let direct =
                matches!(choice.route, Route::Direct | Route::DirectNow | Route::Registered | Route::RegisteredNow);
            assert!(!direct, "{facts:?}: {choice:?}");
        }
    });
}

#[test]
fn pageable_memory_goes_to_the_driver_where_it_takes_the_bytes_at_once_only() {
    for_all(|facts, memory, choice| {
        let pageable = memory.pages == Pages::Unregistered && !memory.pinned && facts.end == End::Program;
        if pageable && facts.direction == Direction::In && choice.route == Route::Direct {
            assert!(facts.may_take && facts.len <= TAKEN_MAX, "{facts:?}: {choice:?}");
        }
        if pageable && facts.direction == Direction::Out && choice.route == Route::Direct {
            assert!(facts.exposed || facts.waits && facts.len <= WAITED_OUT_MAX, "{facts:?}: {choice:?}");
        }
    });
}

#[test]
fn a_turn_decides_and_a_stream_of_the_programs_waits_for_no_slot_or_thread() {
    for_all(|facts, memory, choice| {
        assert!(facts.at == IssuePoint::Call || choice.route != Route::InTurn, "{facts:?}: {choice:?}");
        if facts.at == IssuePoint::Call && facts.exposed {
            let waits_for_the_host = matches!(choice.route, Route::SmallSlot | Route::Egress);
            assert!(!waits_for_the_host, "{facts:?}: {choice:?}");
        }
        assert!(memory.asked <= 1, "the driver is asked twice: {facts:?}");
        assert!(!choice.reason.is_empty() && !choice.route.to_string().is_empty());
    });
}

#[test]
fn older_bytes_come_first() {
    for_all(|facts, memory, choice| {
        // Bytes out are written to the memory by the waiter, in the order of the calls.
        let slot = choice.route == Route::SmallSlot || choice.route == Route::Held && facts.direction == Direction::Out;
        let small = slot || facts.may_take && facts.waits && facts.len <= TAKEN_MAX;
        if facts.end == End::Program && facts.at == IssuePoint::Call && memory.unfinished && !small {
            assert_eq!(choice.route, Route::InTurn, "{facts:?}");
        }
    });
}

#[test]
fn only_small_asynchronous_copies_are_held_back_and_only_bytes_that_nothing_writes_meanwhile() {
    let mut held = 0;
    for_all(|facts, memory, choice| {
        if choice.route != Route::Held {
            return;
        }
        held += 1;
        assert!(facts.in_row && facts.at == IssuePoint::Call && (1..=ROW_MAX).contains(&facts.len), "{facts:?}");
        assert!(!facts.synchronous && !facts.exposed && facts.end != End::Mapped, "{facts:?}");
        if facts.direction == Direction::In && facts.end == End::Program {
            let reached = memory.pages == Pages::Mixed || memory.pages == Pages::Unregistered && memory.pinned;
            assert!(!reached && !memory.unfinished, "{facts:?}");
        }
    });
    assert!(held > 0);
}

#[test]
fn the_usual_copies_go_their_usual_ways() {
    let (into, out, call, turn) = (Direction::In, Direction::Out, IssuePoint::Call, IssuePoint::Turn);
    let pinned = || TestFacts { pinned: true, ..PAGEABLE };
    let locked = || TestFacts { pages: Pages::Registered, ..PAGEABLE };
    for (facts, mut memory, wanted) in [
        (facts(into, call, 1 << 20, true), PAGEABLE, Route::DirectNow),
        (facts(into, call, 1 << 30, true), PAGEABLE, Route::InTurn),
        (facts(into, turn, 1 << 30, true), PAGEABLE, Route::Staged),
        (facts(into, call, 1 << 30, false), pinned(), Route::Direct),
        (facts(into, call, 1 << 30, false), locked(), Route::Registered),
        (facts(into, turn, 1 << 30, true), locked(), Route::StagedAfterAll),
        (Facts { may_take: true, ..facts(into, call, 8, true) }, pinned(), Route::Taken),
        (Facts { may_take: true, ..facts(into, call, 8, true) }, PAGEABLE, Route::DirectNow),
        (facts(out, call, 8, true), PAGEABLE, Route::SmallSlot),
        (facts(out, call, 1 << 20, true), PAGEABLE, Route::Direct),
        (facts(out, call, 1 << 30, true), PAGEABLE, Route::Staged),
        (facts(out, call, 1 << 30, true), locked(), Route::Registered),
        (facts(out, call, 1 << 20, true), locked(), Route::RegisteredNow),
        (Facts { end: End::Handed { detached: true }, ..facts(out, call, 1 << 30, false) }, PAGEABLE, Route::Egress),
        (
            Facts { end: End::Handed { detached: false }, ..facts(into, turn, 1 << 30, false) },
            PAGEABLE,
            Route::Piecewise,
        ),
        (Facts { end: End::Mapped, ..facts(out, turn, 1 << 30, false) }, PAGEABLE, Route::Mapped),
        (Facts { in_row: true, may_take: true, ..facts(into, call, 8, false) }, PAGEABLE, Route::Held),
        (Facts { in_row: true, may_take: true, ..facts(into, call, 8, false) }, pinned(), Route::Direct),
        (Facts { in_row: true, ..facts(out, call, 8, true) }, PAGEABLE, Route::Held),
    ] {
        assert_eq!(route(&facts, &mut memory).route, wanted, "{facts:?}");
    }
}
