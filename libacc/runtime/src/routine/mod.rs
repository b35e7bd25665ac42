//! The routines of OpenACC 3.3, chapter 3: one file for each group.

mod attach;
mod cuda;
mod data;
mod device;
mod device_queue;
mod init;
mod map;
mod memory;
mod property;
mod queue;

pub use device_queue::AnyDone;
