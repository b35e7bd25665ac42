//! Streams of a GPU: threads of a program, workers, the copying thread and other processes, with a GPU that executes each
//! stream's commands whenever the seed says so.
//!
//! The rules are the real ones (`crates/device/src/stream`): order and completion of operations, staging slots, the fence behind
//! copies from elsewhere. The threads around them take the steps of `crates/gpu/src`, one at a time in an order that
//! the seed decides, so polls are late and overtake each other. In some seeds a copy fails at its other end, the device is
//! lost, or it is shut down.
//!
//! Each command verifies that the memory has the bytes that the program's order gives it. A wait that succeeds has all its
//! operations done, also those of streams that its own one waits for. A slot is taken only when the device has passed it. A
//! failure is reported only when the device no longer writes to the program's memory. Every wait ends, every operation is done
//! or dropped, and every slot returns.
//!
//! A [`Fault`] falsifies one answer of the rules, which shows that these checks find it.

#![allow(
    clippy::await_holding_refcell_ref,
    reason = "a lock is dropped before each await, which the lint does not see; a thread that kept it would make the next one panic"
)]

mod driver;
mod faults;
mod gpu;
mod injected;
mod machine;
mod operation;
mod perform;
mod program;
mod scheduler;
mod slots;
mod taking;
mod waits;

pub use faults::Fault;
pub use program::{run, run_with};
