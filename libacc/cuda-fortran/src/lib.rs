//! The runtime of CUDA Fortran programs: flang's `_FortranACUF*`, the routines of module `cudafor`, launches, and on
//! CPU devices the threads of a kernel.
//!
//! It is linked into the program, and does everything by OpenACC's own entry points, so that both share devices, memory and queues.
//! A launch is a region whose only entry is a [`KernelLaunch`](accord_types::kernel_launch::KernelLaunch) by value. A CPU device's worker is
//! the same executable and runs that region. For GPUs the regions' kernels are registered as GCC's own are ([`publication`]).

mod acc;
mod allocate;
mod attributes;
mod cudafor;
mod descriptor;
mod errors;
mod event_records;
mod events;
mod fibers;
mod filling;
mod grid;
mod launch;
mod memory;
mod memory_argument;
mod modules;
mod mpi;
mod publication;
mod reductions;
mod streams;
mod transfer;
mod vendor;
