//! Programs and their connections to executors, which push to each other: threads of the programs, the machines that decide for
//! them, lanes that are slow, stall and break, and executors whose streams take their time.
//!
//! What decides is the real thing: a program's connection (`accord_client::connection`), the executor (`accord_executor::executor`),
//! who waits for whom in a copy between executors and which lane it gets (`accord_fabric::transfer`), and so is the coding of
//! commands and events. The threads around them do what those of `libacc/client/src/remote`, of the executor's driver and of its
//! peers do, one step at a time in an order that the seed decides. Devices are simulated. docs/design/processes.md says what is
//! checked.

mod actor;
mod completion;
mod driver;
mod executor;
mod false_events;
mod frames;
mod incoming_transfers;
mod lane;
mod lies;
mod op;
mod peer_link;
mod peers;
mod program;
mod script;
mod site;
mod streams;
mod thread;
mod work;
mod world;

pub use world::run;
