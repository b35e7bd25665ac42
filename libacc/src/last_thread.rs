//! Ends a program whose `main` has ended by `pthread_exit` with its last own thread. This library's threads must not keep the process alive, but the C
//! library counts all threads. So one of this library's threads checks whether others remain.

use accord_types::threads;
use std::ffi::c_void;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The interval at which the program's threads are counted once `main` has left.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// The thread of `main` has ended, and the process has not.
static MAIN_LEFT: AtomicBool = AtomicBool::new(false);
/// Whether there is a session, and threads of this library with it.
static IN_USE: AtomicBool = AtomicBool::new(false);
/// A thread counts already.
static COUNTED: AtomicBool = AtomicBool::new(false);

/// Records the thread of `main`. For constructors and forked children, which run in it.
pub(crate) fn watch_main() {
    MAIN_LEFT.store(false, Ordering::SeqCst);
    IN_USE.store(false, Ordering::SeqCst);
    COUNTED.store(false, Ordering::SeqCst);
    // SAFETY: these have no preconditions.
    let is_main = unsafe { libc::gettid() == libc::getpid() };
    if let (true, Some(key)) = (is_main, key()) {
        // SAFETY: the key exists, and its value is never dereferenced.
        unsafe { libc::pthread_setspecific(key, std::ptr::without_provenance(1)) };
    }
}

/// Returns the key whose destructor runs when `main` leaves by `pthread_exit`, but not when the process ends.
fn key() -> Option<libc::pthread_key_t> {
    unsafe extern "C" fn left(_value: *mut c_void) {
        MAIN_LEFT.store(true, Ordering::SeqCst);
        if IN_USE.load(Ordering::SeqCst) {
            count_threads();
        }
    }
    static KEY: OnceLock<Option<libc::pthread_key_t>> = OnceLock::new();
    *KEY.get_or_init(|| {
        let mut key = 0;
        // SAFETY: the key is valid; the destructor ignores its value.
        (unsafe { libc::pthread_key_create(&raw mut key, Some(left)) } == 0).then_some(key)
    })
}

/// Records that there may be threads of this library from now on.
pub(crate) fn session_begins() {
    IN_USE.store(true, Ordering::SeqCst);
    if MAIN_LEFT.load(Ordering::SeqCst) {
        count_threads();
    }
}

/// Ends the process with status 0 once only this library's threads are left.
fn count_threads() {
    if COUNTED.swap(true, Ordering::SeqCst) {
        return;
    }
    // Without the thread the process stays alive, as with any library that leaves threads running.
    let _ = threads::spawn("accord-last", || {
        // Twice, because a thread of this library may end and another one start during the count.
        while others_left() || others_left() {
            std::thread::sleep(POLL_INTERVAL);
        }
        // SAFETY: as the C library ends a process after its last thread.
        unsafe { libc::exit(0) }
    });
}

/// Whether any thread remains except this library's, those of the GPUs' driver, and that of `main`, which stays as a zombie. Also `true` if the system
/// does not tell.
fn others_left() -> bool {
    // Read first: a thread that starts meanwhile is in the list, and not counted here.
    let ours = threads::running();
    // SAFETY: has no preconditions.
    let main = unsafe { libc::getpid() }.to_string();
    // A thread inherits its starter's name. If the program's own name begins like those of the driver's threads, names prove nothing.
    let program = std::fs::read(format!("/proc/thread-self/../{main}/comm")).unwrap_or_default();
    let Ok(all) = std::fs::read_dir("/proc/thread-self/..") else { return true };
    let others = all.flatten().filter(|task| task.file_name().to_str() != Some(&main)).filter(|task| {
        let name = std::fs::read(task.path().join("comm")).unwrap_or_default();
        !name.starts_with(b"cuda") || name == program
    });
    let others = others.count();
    // A thread of this library that ended meanwhile is neither in the list nor counted any more.
    others > ours.min(threads::running())
}
