//! The runtime of CUDA Fortran programs: flang's `_FortranACUF*`, the routines of module `cudafor`, launches, and on
//! CPU devices the threads of a kernel.
//!
//! It is linked into the program, and does everything by OpenACC's own entry points, so that both share devices, memory and queues.
//! A CPU device's worker is the same executable: a launch is a region whose only entry is a [`packet::Launch`] by value.

mod acc;
mod allocate;
mod cudafor;
mod descriptor;
mod errors;
mod fibers;
mod grid;
mod launch;
mod memory;
mod modules;
mod packet;
mod streams;
mod transfer;
