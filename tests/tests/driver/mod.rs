//! The tests' own CUDA driver.

/// Creates a folder in which the names of the driver and of its management library lead to it.
pub(crate) fn driver() -> tempfile::TempDir {
    // Makes cargo build it.
    let _ = accord_fake_cuda::fake_cuda_links as extern "C" fn() -> u32;
    let folder = tempfile::tempdir().expect("a temporary folder");
    let fake = std::env::current_exe().expect("this binary").with_file_name("libaccord_fake_cuda.so");
    for name in ["libcuda.so.1", "libnvidia-ml.so.1"] {
        std::os::unix::fs::symlink(&fake, folder.path().join(name)).expect("a link");
    }
    folder
}
