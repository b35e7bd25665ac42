//! A program's connection to an executor: threads of a program, the machine that decides for them, lanes that are slow, stall and
//! break, and an executor whose streams take their time.
//!
//! The machine is the real one (`accord_client::connection`), so is what decides in the executor (`accord_executor::executor`), and so
//! is the coding of commands and events. The threads around them do what those of `libacc/client/src/remote` and of the executor's
//! driver do, one step at a time in an order that the seed decides. Devices are simulated. Checked are: the program's memory and the devices' against a sequential
//! model, that every wait ends, that errors come in time, that nothing grows beyond its bound, that nothing touches the memory of a
//! device that was shut down, and that nobody wakes up when nothing happens.

mod actor;
mod driver;
mod executor;
mod frames;
mod landing;
mod lane;
mod lies;
mod program;
mod script;
mod streams;
mod thread;
mod world;

pub use world::run;
