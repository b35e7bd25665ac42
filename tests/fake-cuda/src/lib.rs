//! A CUDA driver for tests, which is never installed. Device memory is host memory, streams are threads, and a kernel is
//! a function that the test has registered under its name, or one of the library `FAKE_CUDA_KERNELS` (C compilers accept
//! the `$` in `add$_omp_fn$0`). Any call can be made to fail.
//!
//! `FAKE_CUDA_DEVICES` (default 2), `FAKE_CUDA_MEMORY` (bytes, default 1 GiB) and `FAKE_CUDA_VERSION` (default 13000)
//! set the hardware; `CUDA_VISIBLE_DEVICES` selects devices by number. `FAKE_CUDA_IPC=0` disables exporting memory to
//! other processes, `FAKE_CUDA_IMPORT=0` importing theirs.
//! Devices of one `FAKE_CUDA_UUID_SEED` (default 0) and number have the same UUID in all processes.
//! `FAKE_CUDA_PROHIBITED` is the number of a device in prohibited compute mode. With `FAKE_CUDA_PAGEABLE=1` devices
//! report access to pageable memory. `FAKE_CUDA_INIT` is the error of the driver's initialisation, or `crash`.
//! A context reduces the reported free memory by `FAKE_CUDA_CONTEXT` bytes (default 0).
//! `FAKE_CUDA_FAULTS` is a folder: while it contains a file `gpu-SEED`, the GPUs of that seed have the fault with the number in it.
//! `FAKE_CUDA_LOAD` (percent) and `FAKE_CUDA_LOAD_MEMORY` (bytes) are what the management library tells of all devices.
//! With `FAKE_CUDA_MIG=1` devices are in MIG mode: the management library does not report their utilization.
//! Each of these names may have the prefix `NVIDIA_`.

mod calls;
mod control;
mod management;
mod memory;
mod module;
mod remains;
mod stream;

pub use control::{
    Kernel, fake_cuda_calls, fake_cuda_dawdle, fake_cuda_fail, fake_cuda_gangs, fake_cuda_gangs_of_block,
    fake_cuda_graphs, fake_cuda_interrupts, fake_cuda_kernel, fake_cuda_links, fake_cuda_registered,
    fake_cuda_row_copies, fake_cuda_strays, fake_cuda_took,
};
