//! Device arrays as buffers of MPI calls in Fortran.
//!
//! The program defines MPI's routines that have buffers or complete requests (`mpi_send_`), and calls the MPI library's own ones. A buffer in device memory is
//! staged: MPI gets a copy in host memory, and what it receives goes to the device when the call or its request completes. GPUs of this
//! process are the exception if the MPI takes their memory. Tools that replace the same routines come next, because they are libraries.

mod buffers;
mod layout;
mod library;
mod requests;
mod routines;
mod unstaged;
mod windows;
