//! Looks addresses up in the debug information and the symbols of a program's files: the line and function of code, the
//! variable at a data address, the pointer that leads to a block of memory.
//!
//! An [`ObjectInfo`] is one file, read when it is opened, which should happen only for a message. Offsets are relative to
//! the file's load address. Values of variables are read through [`Memory`], which must tolerate any address: values read
//! may be garbage, and are only ever compared. The constants of this crate bound work and memory; beyond them a search
//! returns no result.

#![forbid(unsafe_code)]

mod elements;
mod entry;
mod file;
mod globals;
mod layout;
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
pub use layout::{Field, Layout, Scalar};
pub use location::Frame;
pub use memory::{Memory, ProcessMemory};
pub use source_location::{SourceLocation, base_name};
pub use variables::Variable;
