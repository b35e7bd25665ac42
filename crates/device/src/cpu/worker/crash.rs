//! Records which region has crashed or called `exit`, and then ends the process.

use crate::cpu::layout::{Control, NO_ADDRESS};
use std::cell::Cell;
use std::sync::OnceLock;
use std::sync::atomic::Ordering;

/// Stack for a handler, needed when the thread's own stack has overflowed.
const HANDLER_STACK_BYTES: usize = 64 << 10;

static CONTROL: OnceLock<Control> = OnceLock::new();

thread_local! {
    static STREAM: Cell<u32> = const { Cell::new(u32::MAX) };
}

unsafe extern "C" {
    fn on_exit(function: extern "C" fn(libc::c_int, *mut libc::c_void), argument: *mut libc::c_void) -> libc::c_int;
}

/// Signals that a terminal, a batch system or the program sends to all processes of the program.
const OF_THE_PROGRAM: [libc::c_int; 8] = [
    libc::SIGHUP,
    libc::SIGINT,
    libc::SIGQUIT,
    libc::SIGTERM,
    libc::SIGUSR1,
    libc::SIGUSR2,
    libc::SIGALRM,
    libc::SIGPIPE,
];

/// Installs handlers for the signals of a crash, and for `exit`.
pub(super) fn install(control: Control) {
    if CONTROL.set(control).is_err() {
        return;
    }
    // SAFETY: an all-zero sigaction is valid; the handler only stores to shared atomics and calls _exit.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = crashed as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        for signal in [libc::SIGSEGV, libc::SIGBUS, libc::SIGILL, libc::SIGFPE, libc::SIGABRT] {
            libc::sigaction(signal, &raw const action, std::ptr::null_mut());
        }
        action.sa_sigaction = sent as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART;
        for signal in OF_THE_PROGRAM {
            libc::sigaction(signal, &raw const action, std::ptr::null_mut());
        }
        on_exit(exited, std::ptr::null_mut());
    }
}

/// Ignores a signal from elsewhere: the program decides what it means, and a worker ends with the program. A signal that a region has caused has
/// the default effect.
extern "C" fn sent(signal: libc::c_int, info: *mut libc::siginfo_t, _context: *mut libc::c_void) {
    // SAFETY: the kernel passes the information for SA_SIGINFO handlers; the calls are async-signal-safe.
    unsafe {
        let is_own = match (*info).si_code {
            libc::SI_USER | libc::SI_TKILL | libc::SI_QUEUE => (*info).si_pid() == libc::getpid(),
            // A terminal's signals are the kernel's, as are those of timers.
            code => code != SI_KERNEL || signal == libc::SIGALRM,
        };
        if is_own {
            libc::signal(signal, libc::SIG_DFL);
            libc::raise(signal);
        }
    }
}

/// Gives the calling thread, which serves `stream`, a stack for its handler.
pub(super) fn prepare_thread(stream: u32) {
    STREAM.set(stream);
    let memory = Box::leak(vec![0u8; HANDLER_STACK_BYTES].into_boxed_slice());
    let stack = libc::stack_t { ss_sp: memory.as_mut_ptr().cast(), ss_flags: 0, ss_size: HANDLER_STACK_BYTES };
    // SAFETY: the memory is leaked for this thread, which lives as long as the process.
    unsafe { libc::sigaltstack(&raw const stack, std::ptr::null_mut()) };
}

/// The kernel's `si_code` for a fault that has no address.
const SI_KERNEL: libc::c_int = 0x80;

extern "C" fn crashed(signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    if let Some(control) = CONTROL.get() {
        let header = control.header();
        // SAFETY: the kernel passes both for SA_SIGINFO handlers.
        unsafe {
            // For an access to a non-canonical address the kernel reports no address.
            let known = signal != libc::SIGSEGV || (*info).si_code > 0 && (*info).si_code != SI_KERNEL;
            let address = if known { (*info).si_addr() as u64 } else { NO_ADDRESS };
            header.crash_address.store(address, Ordering::Relaxed);
            header.crash_code.store((*info).si_code, Ordering::Relaxed);
            let at = instruction(context);
            // The return address names the caller of an address that is no code.
            let called = signal == libc::SIGSEGV && address == at;
            header.crash_ip.store(if called { return_address(context).wrapping_sub(1) } else { at }, Ordering::Relaxed);
            header.crash_call.store(called.into(), Ordering::Relaxed);
        }
        header.crash_stream.store(STREAM.get(), Ordering::Relaxed);
        header.crash_signal.store(signal, Ordering::Release);
    }
    // SAFETY: async-signal-safe.
    unsafe { libc::_exit(128 + signal) }
}

/// Ends a worker whose ring a region has overwritten.
pub(super) fn corrupt(control: &Control) -> ! {
    control.header().corrupt.store(1, Ordering::Release);
    // SAFETY: the call ends the process at once, as a crash does.
    unsafe { libc::_exit(128 + libc::SIGSEGV) }
}

extern "C" fn exited(status: libc::c_int, _argument: *mut libc::c_void) {
    if let Some(control) = CONTROL.get() {
        let header = control.header();
        header.exit_stream.store(STREAM.get(), Ordering::Relaxed);
        header.exit_code.store((status & 0xff) + 1, Ordering::Release);
    }
    // The program's `main` never ran, so that its exit handlers have no work.
    // SAFETY: the call ends the process.
    unsafe { libc::_exit(status) }
}

/// Returns the address of the interrupted instruction.
///
/// # Safety
/// `context` is the third argument of a signal handler.
unsafe fn instruction(context: *mut libc::c_void) -> u64 {
    // SAFETY: the caller's promise.
    let context = unsafe { &(*context.cast::<libc::ucontext_t>()).uc_mcontext };
    #[cfg(target_arch = "x86_64")]
    return context.gregs[libc::REG_RIP as usize] as u64;
    #[cfg(target_arch = "aarch64")]
    return context.pc;
}

/// Returns the return address of a function that was just called.
///
/// # Safety
/// `context` is the third argument of a signal handler, and the interrupted instruction is the first of a function.
unsafe fn return_address(context: *mut libc::c_void) -> u64 {
    // SAFETY: by the caller's guarantee the call has left it on the stack, or in its register.
    unsafe {
        let context = &(*context.cast::<libc::ucontext_t>()).uc_mcontext;
        #[cfg(target_arch = "x86_64")]
        return (context.gregs[libc::REG_RSP as usize] as *const u64).read();
        #[cfg(target_arch = "aarch64")]
        return context.regs[30];
    }
}
