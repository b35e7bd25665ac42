//! A program whose `main` has ended by `pthread_exit` ends with its last thread. This library's threads must not keep it, so one of them
//! looks whether others are left, as the C library does that counts them all.

use accord_types::threads;
use std::ffi::c_void;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The interval at which the program's threads are counted once `main` has left.
const LOOK: Duration = Duration::from_millis(20);

/// The thread of `main` has ended, and the process has not.
static MAIN_LEFT: AtomicBool = AtomicBool::new(false);
/// There is a session, and threads of this library with it.
static IN_USE: AtomicBool = AtomicBool::new(false);
/// A thread counts already.
static COUNTED: AtomicBool = AtomicBool::new(false);

/// Notes the thread of `main`. For constructors and forked children, which run in it.
pub(crate) fn watch_main() {
    MAIN_LEFT.store(false, Ordering::SeqCst);
    IN_USE.store(false, Ordering::SeqCst);
    COUNTED.store(false, Ordering::SeqCst);
    // SAFETY: these have no preconditions.
    let is_main = unsafe { libc::gettid() == libc::getpid() };
    if let (true, Some(key)) = (is_main, key()) {
        // SAFETY: the key is there, and its value is never followed.
        unsafe { libc::pthread_setspecific(key, std::ptr::without_provenance(1)) };
    }
}

/// The key whose destructor runs when `main` leaves by `pthread_exit`, and not when the process ends.
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

/// There may be threads of this library from here on.
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
    // Without a thread the process stays, as one does whose library leaves threads behind.
    let _ = threads::spawn("accord-last", || {
        // Twice: a thread of this library may end, and another one start, while the threads are counted.
        while others_left() || others_left() {
            std::thread::sleep(LOOK);
        }
        // SAFETY: as the C library ends a process after its last thread.
        unsafe { libc::exit(0) }
    });
}

/// Whether any thread is left but this library's, those of the GPUs' driver, and that of `main`, which stays as a zombie. So it is also said
/// where the system does not tell.
fn others_left() -> bool {
    // Read first: a thread that starts meanwhile is one more in the list, and is not counted here.
    let ours = threads::running();
    // SAFETY: has no preconditions.
    let main = unsafe { libc::getpid() }.to_string();
    // A thread has the name of the one that started it: in a program whose own name begins like the driver's threads, that name says nothing.
    let program = std::fs::read(format!("/proc/thread-self/../{main}/comm")).unwrap_or_default();
    let Ok(all) = std::fs::read_dir("/proc/thread-self/..") else { return true };
    let others = all.flatten().filter(|task| task.file_name().to_str() != Some(&main)).filter(|task| {
        let name = std::fs::read(task.path().join("comm")).unwrap_or_default();
        !name.starts_with(b"cuda") || name == program
    });
    let others = others.count();
    // A thread of this library that has ended meanwhile is not in the list, and not counted any more.
    others > ours.min(threads::running())
}
