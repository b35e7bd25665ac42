//! The worker: the program's executable started again, serving launches instead of running `main`.

mod crash;
mod flush;
mod memory;
mod object;
mod serve;

use super::config::{WORKER_ENV, WORKER_FOLDER_ENV, WORKER_SAYS};
use super::control::{self, Answer, Request};
use super::layout::{ARENA_OFFSET, CONTROL_BYTES, Control, LAYOUT_VERSION};
use super::process::Handle;
use accord_types::{scarce, threads};
use memory::DeviceMemory;
use std::io::Write as _;
use std::os::fd::{AsFd as _, AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// The interval of a worker's heartbeats.
const HEARTBEAT: Duration = Duration::from_secs(1);
/// Exit status after the owner's end, which no process reads.
const EXIT_OWNER_GONE: i32 = 0;
/// The worker could not be set up; the reason is on standard error.
const EXIT_SETUP: i32 = 70;

/// Whether this process was started as a worker.
pub fn is_worker() -> bool {
    std::env::var(WORKER_ENV).is_ok_and(|text| is_by_this_program(&text))
}

/// Whether the owner has this process's rights. A program with more rights than its user (set-user-ID, set-group-ID) would otherwise run code that its
/// user chooses. Its own worker is recognised by the socket, which records its creator.
fn is_by_this_program(text: &str) -> bool {
    // SAFETY: has no preconditions.
    if unsafe { libc::getauxval(libc::AT_SECURE) } == 0 {
        return true;
    }
    let Some(socket) = text.split(',').nth(1).and_then(|number| number.parse().ok()) else { return false };
    let mut by = libc::ucred { pid: 0, uid: libc::uid_t::MAX, gid: libc::gid_t::MAX };
    let mut len = size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: the record and its length are valid, and the descriptor may be anything. The other calls have no preconditions.
    unsafe {
        let option = libc::getsockopt(socket, libc::SOL_SOCKET, libc::SO_PEERCRED, (&raw mut by).cast(), &raw mut len);
        let (user, group) = (libc::geteuid(), libc::getegid());
        // If the program's file only has capabilities, the user is the same.
        let of_another = user != libc::getuid() || group != libc::getgid();
        option == 0 && of_another && (by.uid, by.gid) == (user, group)
    }
}

/// Serves as a worker until the owner ends it. Called on the main thread, after the program's constructors and instead of
/// its `main`. Returns the process's exit status.
pub fn main() -> i32 {
    match setup() {
        Ok(worker) => serve(worker),
        Err(why) => {
            // The owner quotes the text or points to it.
            let _ = writeln!(std::io::stderr(), "{WORKER_SAYS}{why}");
            EXIT_SETUP
        }
    }
}

struct Worker {
    memory: OwnedFd,
    socket: UnixStream,
    control: Control,
    slots: Arc<serve::Slots>,
    device: Arc<DeviceMemory>,
}

fn setup() -> Result<Worker, String> {
    let text = std::env::var(WORKER_ENV).map_err(|e| format!("{WORKER_ENV}: {e}"))?;
    // Programs that a region starts must not be workers.
    // SAFETY: constructors have run, and this process has no threads of the program that read the environment, because its
    // `main` never runs.
    unsafe { std::env::remove_var(WORKER_ENV) };
    let numbers: Vec<i64> = text.split(',').map_while(|n| n.parse().ok()).collect();
    let &[memory, socket, at, owner, cores] = numbers.as_slice() else {
        return Err(format!("{WORKER_ENV}={text} is not FD,FD,ADDRESS,PID,CORES"));
    };
    let error = |what: &str| format!("{what}: {}", std::io::Error::last_os_error());
    // SAFETY: the owner made these descriptors for this process only. The kernel chooses the control part's address; the
    // arena is mapped at its fixed address only if that is free.
    let (memory, socket, control, device) = unsafe {
        let memory = OwnedFd::from_raw_fd(memory as RawFd);
        let socket = UnixStream::from(OwnedFd::from_raw_fd(socket as RawFd));
        for fd in [memory.as_raw_fd(), socket.as_raw_fd()] {
            libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC);
        }
        let file_bytes = libc::lseek(memory.as_raw_fd(), 0, libc::SEEK_END);
        if file_bytes <= ARENA_OFFSET as libc::off_t {
            return Err(error("device memory file"));
        }
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let shared = libc::MAP_SHARED | libc::MAP_NORESERVE;
        let base = libc::mmap(std::ptr::null_mut(), CONTROL_BYTES, access, shared, memory.as_raw_fd(), 0);
        if base == libc::MAP_FAILED {
            return Err(error("mapping the control part"));
        }
        let (at, len) = (at as u64, file_bytes as u64 - ARENA_OFFSET);
        let arena = libc::mmap(
            at as *mut libc::c_void,
            len as usize,
            libc::PROT_NONE,
            shared | libc::MAP_FIXED_NOREPLACE,
            memory.as_raw_fd(),
            ARENA_OFFSET as libc::off_t,
        );
        if arena as u64 != at {
            return Err(error(&format!("mapping device memory at {at:#x}")));
        }
        let control = Control::new(base.cast());
        (memory, socket, control, DeviceMemory::new(control, at, len))
    };
    if control.header().version.load(Ordering::Acquire) != LAYOUT_VERSION {
        return Err("libacc.so here and at the program differ; install one version".to_owned());
    }
    object::set_owner(owner as u32);
    go_to_folder();
    follow_owner(owner as i32, &socket, control)?;
    crash::install(control);
    let slots = Arc::new(serve::Slots::new(cores.max(1) as u32));
    Ok(Worker { memory, socket, control, slots, device: Arc::new(device) })
}

/// Changes to the program's folder, if the program has left the one that it was started in. Its libraries may have been found by relative paths.
fn go_to_folder() {
    if let Some(folder) = std::env::var_os(WORKER_FOLDER_ENV) {
        // SAFETY: as above, only this thread uses the environment.
        unsafe { std::env::remove_var(WORKER_FOLDER_ENV) };
        // As for a process that is started in a missing folder.
        let _ = std::env::set_current_dir(folder).or_else(|_| std::env::set_current_dir("/"));
    }
}

/// Ends this process as soon as the owner has ended, and counts heartbeats meanwhile.
fn follow_owner(owner: i32, socket: &UnixStream, control: Control) -> Result<(), String> {
    let owner = Handle::new(owner, socket.as_fd()).map_err(|error| format!("owner {owner}: {error}"))?;
    let follow = move || {
        while !owner.has_ended_within(Some(HEARTBEAT)) {
            control.header().beats.fetch_add(1, Ordering::Relaxed);
        }
        // SAFETY: ends the process at once; destructors of a program that never ran stay unrun.
        unsafe { libc::_exit(EXIT_OWNER_GONE) }
    };
    let started = threads::spawn("accord-owner", follow).map(drop);
    started.map_err(|error| format!("starting a thread: {error}; {}", scarce::THREADS))
}

fn serve(mut worker: Worker) -> i32 {
    let pid = std::process::id().to_ne_bytes();
    if worker.socket.write_all(&pid).is_err() {
        return EXIT_OWNER_GONE;
    }
    while let Ok(request) = control::receive_request(&mut worker.socket) {
        let answer = match answer(&worker, request) {
            Ok((a, b)) => Answer::Done(a, b),
            Err(why) => Answer::Failed(why),
        };
        if control::send_answer(&mut worker.socket, &answer).is_err() {
            break;
        }
    }
    // SAFETY: as in `follow_owner`.
    unsafe { libc::_exit(EXIT_OWNER_GONE) }
}

fn answer(worker: &Worker, request: Request) -> Result<(u64, u64), String> {
    match request {
        Request::Stream { index } => {
            serve::start(worker.control, index, Arc::clone(&worker.slots), Arc::clone(&worker.device))?;
            Ok((0, 0))
        }
        Request::Resolve { path, build_id, executable, offset } => {
            let found = object::resolve(&path, &build_id, executable, offset);
            flush::look_around();
            found
        }
        Request::Share { address, len, file_offset } => {
            // No region may run while the pages of its variables are remapped.
            let _no_region_runs = worker.slots.take_all();
            object::share(&worker.memory, address, len, file_offset)?;
            Ok((0, 0))
        }
    }
}

#[cfg(test)]
mod tests;
