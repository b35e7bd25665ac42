//! Programs and their connections to executors, which push to each other. Lanes are slow, stall and break, and streams
//! take their time.
//!
//! The deciding code is the real one:
//! * the program's connection (`accord_client::connection`),
//! * the executor (`accord_executor::executor`),
//! * the table and the lane pool of copies between executors (`accord_fabric::transfer`),
//! * the encoding of commands and events.
//!
//! The threads around them are modelled on `libacc/client/src/remote` and on the executor's driver and peers. They run
//! one step at a time in an order that the seed decides. Devices are simulated. docs/design/processes.md lists what is
//! checked.

mod actor;
mod completion;
mod driver;
mod executor;
mod false_commands;
mod false_events;
mod frames;
mod incoming_transfers;
mod lane;
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
