//! Starts all threads. A panic never ends a thread alone, since other threads may wait for it.
//!
//! | process | a panic |
//! | --- | --- |
//! | one of ours ([`abort_on_panic`]) | aborts the process, on any thread and in any task, so that its waiters see the end |
//! | a program that we are guests in ([`end_on_panic`]) | of a thread of ours ends it as errors of its calls do |
//! | any other, as a test | of a thread of ours aborts it |
//!
//! Callers that can report a panic run the work with [`caught`], and get an error.

use std::any::Any;
use std::backtrace::{Backtrace, BacktraceStatus};
use std::cell::Cell;
use std::fmt;
use std::io::{self, Write as _};
use std::panic::{AssertUnwindSafe, PanicHookInfo, catch_unwind};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

/// The remedy for a panic.
pub const REMEDY: &str = "this is a bug in Accord, please report it";

/// A panic that was caught.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Panic {
    thread: String,
    message: String,
}

impl fmt::Display for Panic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the thread {} has panicked: {}", self.thread, self.message)
    }
}

/// The function by which a guest ends its process.
static END: OnceLock<fn(&Panic)> = OnceLock::new();

/// What happens to a thread's panics.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Catcher {
    None,
    /// They are printed, and become errors.
    Told,
    /// They become errors.
    Quiet,
}

thread_local! {
    static CATCHER: Cell<Catcher> = const { Cell::new(Catcher::None) };
}

/// Makes any panic in this process, one of `program`'s own, print a line and abort it, unless it is [`caught`].
pub fn abort_on_panic(program: &'static str) {
    std::panic::set_hook(Box::new(move |info| {
        if CATCHER.get() == Catcher::Quiet {
            return;
        }
        let trace = Backtrace::capture();
        let mut text = format!("{program}: {}; {REMEDY}\n", describe(info));
        if trace.status() == BacktraceStatus::Captured {
            text += &format!("{trace}\n");
        }
        last_words(text);
        if CATCHER.get() == Catcher::None {
            std::process::abort();
        }
    }));
}

/// Writes to standard error, which may block, without waiting for it: a process that must end abandons the rest.
fn last_words(text: String) {
    const POLLS: u32 = 50;
    const PAUSE: Duration = Duration::from_millis(10);
    let write = move || io::stderr().write_all(text.as_bytes());
    let Ok(writer) = Builder::new().name("accord-panic".to_owned()).spawn(write) else { return };
    for _ in 0..POLLS {
        if writer.is_finished() {
            break;
        }
        std::thread::sleep(PAUSE);
    }
}

/// Makes a panic of a thread from [`spawn`] call `end`, which ends the process. The thread's values are dropped before
/// that.
pub fn end_on_panic(end: fn(&Panic)) {
    // The first registration stays.
    let _ = END.set(end);
}

/// Returns a panic in one line, for hooks.
pub fn describe(info: &PanicHookInfo<'_>) -> String {
    let place = info.location().map_or_else(String::new, |place| format!(" at {place}"));
    format!("the thread {} has panicked{place}: {}", current(), one_line(info.payload()))
}

/// Starts a thread.
///
/// # Errors
/// Returns an error if the system can't start another thread.
pub fn spawn<T: Send + 'static>(
    name: impl Into<String>,
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<JoinHandle<T>> {
    Builder::new().name(name.into()).spawn(guarded(work))
}

/// Starts a thread as [`spawn`], with a stack of this size.
///
/// # Errors
/// Returns the errors of [`spawn`].
pub fn spawn_with_stack<T: Send + 'static>(
    name: impl Into<String>,
    stack_bytes: usize,
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<JoinHandle<T>> {
    Builder::new().name(name.into()).stack_size(stack_bytes).spawn(guarded(work))
}

/// Runs `work`, whose panic becomes an error and ends neither the thread nor the process.
///
/// # Errors
/// Returns the panic of `work`.
pub fn caught<T>(work: impl FnOnce() -> T) -> Result<T, Panic> {
    caught_by(Catcher::Told, work)
}

/// Runs `work` as [`caught`] does, without a line about its panic: a library gives up so on input that is not ours to vouch for.
///
/// # Errors
/// Returns the panic of `work`.
pub fn caught_quietly<T>(work: impl FnOnce() -> T) -> Result<T, Panic> {
    caught_by(Catcher::Quiet, work)
}

fn caught_by<T>(catcher: Catcher, work: impl FnOnce() -> T) -> Result<T, Panic> {
    let before = CATCHER.replace(catcher);
    let outcome = catch_unwind(AssertUnwindSafe(work));
    CATCHER.set(before);
    outcome.map_err(|payload| Panic { thread: current(), message: one_line(&*payload) })
}

/// Returns the number of running threads from this module. A starting thread is not yet counted, an ending one no
/// longer.
pub fn running() -> usize {
    RUNNING.load(Ordering::SeqCst)
}

/// Resets the count in a forked child, which has none of its parent's threads.
pub fn forget_after_fork() {
    RUNNING.store(0, Ordering::SeqCst);
}

static RUNNING: AtomicUsize = AtomicUsize::new(0);

/// Wraps a thread's work, so that its panic does not end the thread alone.
fn guarded<T>(work: impl FnOnce() -> T) -> impl FnOnce() -> T {
    struct Running;
    impl Drop for Running {
        fn drop(&mut self) {
            RUNNING.fetch_sub(1, Ordering::SeqCst);
        }
    }
    move || {
        RUNNING.fetch_add(1, Ordering::SeqCst);
        let _running = Running;
        run(work)
    }
}

fn run<T>(work: impl FnOnce() -> T) -> T {
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(value) => value,
        Err(payload) => {
            if let Some(end) = END.get() {
                end(&Panic { thread: current(), message: one_line(&*payload) });
            }
            std::process::abort()
        }
    }
}

fn current() -> String {
    std::thread::current().name().unwrap_or("without a name").to_owned()
}

fn one_line(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().copied().or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("without a message").lines().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt;
    use std::process::{Command, Output, exit};

    const SIGABRT: i32 = 6;

    /// Runs `body` in a child process, in the test of this name, and returns that process's output.
    fn outcome(test: &str, body: fn()) -> Output {
        const IS_CHILD: &str = "ACCORD_TEST_CHILD";
        if std::env::var_os(IS_CHILD).is_some() {
            body();
            exit(0);
        }
        let mut child = Command::new(std::env::current_exe().unwrap());
        child.args([&format!("threads::tests::{test}"), "--exact", "--nocapture"]).env(IS_CHILD, "1");
        child.env_remove("RUST_BACKTRACE").env_remove("RUST_LIB_BACKTRACE").output().unwrap()
    }

    /// Starts a thread that panics, and waits forever.
    fn wait_for_a_thread_that_panics() {
        let _thread = spawn("accord-one", || panic!("on\npurpose")).unwrap();
        loop {
            std::thread::park();
        }
    }

    fn stderr(outcome: &Output) -> String {
        String::from_utf8_lossy(&outcome.stderr).into_owned()
    }

    #[test]
    fn a_thread_has_a_name_and_gives_a_value() {
        let thread = spawn("accord-one", || std::thread::current().name().map(str::to_owned)).unwrap();
        assert_eq!(thread.join().unwrap().as_deref(), Some("accord-one"));
        assert_eq!(spawn_with_stack("accord-two", 1 << 20, || 7).unwrap().join().unwrap(), 7);
    }

    #[test]
    fn one_of_our_processes_ends_with_a_line() {
        let outcome = outcome("one_of_our_processes_ends_with_a_line", || {
            abort_on_panic("accord-example");
            wait_for_a_thread_that_panics();
        });
        assert_eq!(outcome.status.signal(), Some(SIGABRT));
        let printed = stderr(&outcome);
        let lines: Vec<_> = printed.lines().filter(|line| !line.is_empty()).collect();
        let [line] = lines[..] else { panic!("{printed}") };
        assert!(line.starts_with("accord-example: the thread accord-one has panicked at "), "{printed}");
        assert!(line.ends_with(&format!(": on purpose; {REMEDY}")), "{printed}");
    }

    /// The test harness catches panics of tests, as runtimes catch those of tasks.
    #[test]
    fn a_panic_of_our_processes_is_caught_by_no_other_code() {
        let outcome = outcome("a_panic_of_our_processes_is_caught_by_no_other_code", || {
            abort_on_panic("accord-example");
            let _ = catch_unwind(|| panic!("on purpose"));
        });
        assert_eq!(outcome.status.signal(), Some(SIGABRT), "{}", stderr(&outcome));
    }

    #[test]
    fn a_reported_panic_ends_nothing() {
        let outcome = outcome("a_reported_panic_ends_nothing", || {
            abort_on_panic("accord-example");
            let work = || {
                caught(|| {
                    if std::env::args().count() > 0 {
                        panic!("on purpose")
                    }
                })
            };
            let reported = spawn("accord-one", work).unwrap().join().unwrap();
            assert_eq!(reported.unwrap_err().to_string(), "the thread accord-one has panicked: on purpose");
            // Later panics are no longer caught.
            assert_eq!(caught(|| caught(|| panic!("inside")).is_err()), Ok(true));
            assert!(CATCHER.get() == Catcher::None);
        });
        assert_eq!(outcome.status.code(), Some(0), "{}", stderr(&outcome));
        assert!(stderr(&outcome).contains("on purpose"));
    }

    #[test]
    fn a_guest_ends_its_program_in_its_own_way() {
        let outcome = outcome("a_guest_ends_its_program_in_its_own_way", || {
            end_on_panic(|panic| {
                eprintln!("told: {panic}");
                exit(3);
            });
            wait_for_a_thread_that_panics();
        });
        assert_eq!(outcome.status.code(), Some(3));
        assert!(stderr(&outcome).contains("told: the thread accord-one has panicked: on purpose\n"), "{outcome:?}");
    }

    #[test]
    fn panic_without_an_end_handler_aborts() {
        let outcome = outcome("panic_without_an_end_handler_aborts", wait_for_a_thread_that_panics);
        assert_eq!(outcome.status.signal(), Some(SIGABRT));
    }
}
