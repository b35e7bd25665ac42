//! Reports device addresses that the program dereferences itself, before it crashes, and addresses that MPI can't access. A process that passes such an
//! address to MPI is ended, because MPI would wait for ever or retry.

use crate::{output, settings};
use accord_runtime::{LocalThread, Runtime};
use accord_types::AddressRange;
use std::fmt::{self, Write};
use std::mem::MaybeUninit;
use std::sync::Once;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

/// Longest printed line; the rest is cut.
const LINE_MAX: usize = 512;

/// The runtime that knows the owners of addresses.
static RUNTIME: AtomicPtr<Runtime> = AtomicPtr::new(std::ptr::null_mut());
/// Whether the program is linked with MPI, so that a bad address was passed to MPI.
static HAS_MPI: AtomicBool = AtomicBool::new(false);
/// The previous action of SIGSEGV, once this library's handler is installed.
static BEFORE: AtomicPtr<libc::sigaction> = AtomicPtr::new(std::ptr::null_mut());

/// Reports faults at device addresses from now on, unless the program itself handles the signal. A library that handled it
/// before, as Fortran's and MPI's do, handles it afterwards too.
pub(crate) fn watch_faults(runtime: &'static Runtime) {
    RUNTIME.store(std::ptr::from_ref(runtime).cast_mut(), Ordering::Release);
    HAS_MPI.store(program_has_mpi(), Ordering::Release);
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let mut before = MaybeUninit::<libc::sigaction>::zeroed();
        // SAFETY: both are valid for these calls, and an all-zero action is valid.
        unsafe {
            if libc::sigaction(libc::SIGSEGV, std::ptr::null(), before.as_mut_ptr()) != 0 {
                return;
            }
            if is_in_executable(before.assume_init_ref().sa_sigaction) {
                return;
            }
            BEFORE.store(Box::into_raw(Box::new(before.assume_init())), Ordering::Release);
            let mut action = MaybeUninit::<libc::sigaction>::zeroed().assume_init();
            action.sa_sigaction = faulted as *const () as usize;
            action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
            libc::sigaction(libc::SIGSEGV, &raw const action, std::ptr::null_mut());
        }
    });
}

/// Whether a handler is the program's own code, not that of a library.
fn is_in_executable(handler: usize) -> bool {
    let object = |address: usize| {
        let mut found = MaybeUninit::<libc::Dl_info>::zeroed();
        // SAFETY: any address may be queried, and `found` is valid for writing and valid if all-zero.
        unsafe {
            let known = libc::dladdr(std::ptr::without_provenance(address), found.as_mut_ptr()) != 0;
            known.then(|| found.assume_init().dli_fbase)
        }
    };
    // SAFETY: has no preconditions.
    let entry = unsafe { libc::getauxval(libc::AT_ENTRY) } as usize;
    object(handler).is_some_and(|base| object(entry) == Some(base))
}

/// Reports the owner of a device address, then restores the previous handler. After the return the same instruction faults again, and that handler gets
/// the signal.
extern "C" fn faulted(signal: libc::c_int, info: *mut libc::siginfo_t, _context: *mut libc::c_void) {
    // SAFETY: the kernel passes valid information to SA_SIGINFO handlers. A signal sent by a process has no address.
    let (by_kernel, address) = unsafe { ((*info).si_code > 0, (*info).si_addr() as u64) };
    if by_kernel && print_owner(address, format_args!("the program, or a library it uses, follows {address:#x} itself"))
    {
        end_if_mpi();
    }
    // SAFETY: `watch_faults` has made the action, which is never freed.
    unsafe {
        libc::sigaction(signal, BEFORE.load(Ordering::Acquire), std::ptr::null_mut());
        if !by_kernel {
            libc::raise(signal);
        }
    }
}

/// The remedy if MPI or another library got such an address.
const REMEDY: &str = "only regions, data clauses and acc_ routines reach it. Before MPI or other libraries get data of devices \
                      elsewhere, update it (update self) and pass the host's address; or set ACCORD_DEVICE_ORDER=node, with which \
                      the ranks of a node share that node's devices\n";

/// Ends a process of an MPI job, whose launcher ends the others. Skips exit handlers, which would wait for MPI.
fn end_if_mpi() {
    if HAS_MPI.load(Ordering::Acquire) {
        // SAFETY: the call ends the process without running other code.
        unsafe { libc::_exit(1) }
    }
}

/// Prints a line if `address` is a device's. Returns whether it is known to be. Neither allocates nor blocks, because the fault may be anywhere.
fn print_owner(address: u64, what: fmt::Arguments<'_>) -> bool {
    if !AddressRange::is_in_window(address) {
        return false;
    }
    let mut line = Line { text: [0; LINE_MAX], len: 0 };
    let _ = write!(line, "accord: {what}. It is memory of ");
    // SAFETY: the argument of `watch_faults` lives as long as the process.
    let runtime = unsafe { RUNTIME.load(Ordering::Acquire).as_ref() };
    let is_known = runtime.is_some_and(|runtime| runtime.name_owner(address, &mut line));
    if is_known {
        let _ = write!(line, ", where this process has none: {REMEDY}");
        output::print(line.as_str());
    }
    is_known
}

/// Reports that the kernel has refused memory at `address`, in `call`. MPI would retry, or wait for ever.
pub(crate) fn given(call: &str, address: u64) {
    static REPORTED: AtomicBool = AtomicBool::new(false);
    if !REPORTED.load(Ordering::Relaxed)
        && print_owner(
            address,
            format_args!("the program, or a library it uses, gives {call} the address {address:#x}"),
        )
    {
        REPORTED.store(true, Ordering::Relaxed);
        end_if_mpi();
    }
}

/// Reports as [`given`] for memory of another process, whose devices are unknown here.
pub(crate) fn given_by_another(call: &str, address: u64) {
    static REPORTED: AtomicBool = AtomicBool::new(false);
    if AddressRange::is_in_window(address) && !REPORTED.swap(true, Ordering::Relaxed) {
        let mut line = Line { text: [0; LINE_MAX], len: 0 };
        let _ = write!(
            line,
            "accord: another process of this machine has offered its address {address:#x} for {call}. It is memory of a device, \
             where that process has none: {REMEDY}"
        );
        output::print(line.as_str());
        end_if_mpi();
    }
}

/// A line on the stack.
struct Line {
    text: [u8; LINE_MAX],
    len: usize,
}

impl Line {
    fn as_str(&self) -> &str {
        std::str::from_utf8(&self.text[..self.len]).unwrap_or_default()
    }
}

impl Write for Line {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let space = LINE_MAX - self.len;
        let mut taken = text.len().min(space);
        while !text.is_char_boundary(taken) {
            taken -= 1;
        }
        self.text[self.len..self.len + taken].copy_from_slice(&text.as_bytes()[..taken]);
        self.len += taken;
        Ok(())
    }
}

/// Whether MPI is among the libraries that the program is linked with.
pub(crate) fn program_has_mpi() -> bool {
    // SAFETY: the call looks up a name.
    !unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"MPI_Init".as_ptr()) }.is_null()
}

/// Prints a line, once per process, when `host_data` returns addresses of another node's device to a program with MPI. MPI can't access them, and
/// at best reports "bad address".
pub(crate) fn gave(runtime: &Runtime, local: &mut LocalThread) {
    static REPORTED: AtomicBool = AtomicBool::new(false);
    if REPORTED.load(Ordering::Relaxed) {
        return;
    }
    if let Some(name) = runtime.elsewhere(local)
        && program_has_mpi()
        && !REPORTED.swap(true, Ordering::Relaxed)
        && !settings::is_without_devices()
    {
        output::print(&format!(
            "accord: host_data gives addresses of {name}, which MPI calls of this process can't reach: update the data \
             (update self) and pass the host's addresses, or set ACCORD_DEVICE_ORDER=node, with which the ranks of a node share \
             that node's devices\n"
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_takes_what_fits() {
        let mut line = Line { text: [0; LINE_MAX], len: 0 };
        for _ in 0..LINE_MAX {
            line.write_str("aé").expect("it never fails");
        }
        assert!(line.as_str().starts_with("aéaé") && line.as_str().len() >= LINE_MAX - 2);
    }
}
