//! What the debug information and the symbols of a program's files say of addresses: the line and function of
//! code, the variable at a data address, the pointer that leads to a block of memory.
//!
//! An [`ObjectInfo`] is one file, read when it is opened, which is meant to happen when something is to be said. Offsets are
//! relative to the file's load address. Values of variables are read through [`Memory`], whose reader must bear any
//! address: what is read here may be garbage, and is only ever compared. Work and memory are bounded
//! by the constants of this crate; beyond them there is no answer.

#![forbid(unsafe_code)]

mod elements;
mod entry;
mod file;
mod globals;
mod location;
mod memory;
mod pointee;
mod regions;
mod source_location;
mod symbols;
mod types;
mod variables;

pub use elements::Elements;
pub use file::ObjectInfo;
pub use location::Frame;
pub use memory::{Memory, ProcessMemory};
pub use source_location::{SourceLocation, base_name};
pub use variables::Variable;
