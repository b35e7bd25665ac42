//! A CUDA driver for tests, never installed: device memory is the host's, streams are threads, and a kernel is
//! a function that the test has registered under its name, or that the library `FAKE_CUDA_KERNELS` has (C compilers take
//! the `$` in `add$_omp_fn$0`). Any call can be made to fail.
//!
//! `FAKE_CUDA_DEVICES` (default 2), `FAKE_CUDA_MEMORY` (bytes, default 1 GiB) and `FAKE_CUDA_VERSION` (default 13000)
//! say what there is; `CUDA_VISIBLE_DEVICES` counts, by number. With `FAKE_CUDA_IPC=0` devices can't give memory to other
//! processes, with `FAKE_CUDA_IMPORT=0` theirs can't be taken.
//! Devices of one `FAKE_CUDA_UUID_SEED` (default 0) and number have the same UUID in all processes.
//! `FAKE_CUDA_PROHIBITED` is the number of one in prohibited compute mode. With `FAKE_CUDA_PAGEABLE=1` devices say that
//! they reach all memory of the process. `FAKE_CUDA_INIT` is the error with which the driver starts, or `crash`.
//! A context takes `FAKE_CUDA_CONTEXT` bytes (default 0) of what is said to be free.
//! `FAKE_CUDA_FAULTS` is a folder: while it has a file `gpu-SEED`, the GPUs of that seed have the fault whose number is in it.
//! `NVIDIA_` may stand before each of these names.

mod calls;
mod control;
mod memory;
mod module;
mod remains;
mod stream;

pub use control::{
    Kernel, fake_cuda_calls, fake_cuda_dawdle, fake_cuda_fail, fake_cuda_gangs, fake_cuda_gangs_of_block,
    fake_cuda_graphs, fake_cuda_interrupts, fake_cuda_kernel, fake_cuda_links, fake_cuda_registered,
    fake_cuda_row_copies, fake_cuda_strays, fake_cuda_took,
};
