//! The tests' own CUDA driver.

/// Creates a folder in which the driver's name leads to it.
pub(crate) fn driver() -> tempfile::TempDir {
    // Makes cargo build it.
    let _ = accord_fake_cuda::fake_cuda_links as extern "C" fn() -> u32;
    let folder = tempfile::tempdir().expect("a temporary folder");
    let fake = std::env::current_exe().expect("this binary").with_file_name("libaccord_fake_cuda.so");
    std::os::unix::fs::symlink(fake, folder.path().join("libcuda.so.1")).expect("a link");
    folder
}
