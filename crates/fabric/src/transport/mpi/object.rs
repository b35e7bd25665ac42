//! MPI, in a shared object of its own (`mpi/` in the repository). Only that object links MPI, so that Accord runs on
//! systems without MPI.
//!
//! The object is loaded with global symbols, because Open MPI loads plugins that resolve them.

use super::exposed_buffers::{TAG_FIRST, TAKES_MAX};
use super::exposed_memory::SendBuffer;
use super::short_buffers::{ShortBuffer, ShortBuffers};
use super::spare;
use super::world::{FindReceiveBuffer, ReceivedItem, World};
use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_NOW};
use std::collections::VecDeque;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::io::{self, ErrorKind};
use std::path::Path;

/// The version of the functions below, which the object reports.
const INTERFACE: u32 = 2;
/// Most messages received at a time, not counting those into exposed buffers.
const RECEIVES_MAX: usize = 32;
/// The tag of messages with a header, which need no posted buffer.
const FRAMED: u16 = 1;
const _: () = assert!(FRAMED < TAG_FIRST);
/// Longest message. Longer announced lengths are refused.
const MESSAGE_MAX: usize = super::message::HEADER_LEN + super::message::DATA_MAX;
/// Polls of MPI before other work while it copies exposed buffers: many MPIs copy only inside a call.
const EXPOSED_POLLS: u32 = 16;
/// Most completed requests that one call reports.
const DONE_AT_ONCE: usize = 8;
/// Longest text that the object returns.
const TEXT_MAX: usize = 8 << 10;

type Interface = unsafe extern "C" fn() -> u32;
type BuiltFor = unsafe extern "C" fn() -> *const c_char;
type LibraryText = unsafe extern "C" fn(text: *mut c_char, space: usize) -> usize;
type Open = unsafe extern "C" fn(rank: *mut u32, size: *mut u32, why: *mut c_char, space: usize) -> *mut c_void;
type Send = unsafe extern "C" fn(
    world: *mut c_void,
    to: u32,
    tag: u32,
    bytes: *const u8,
    len: usize,
    request: *mut u32,
) -> c_int;
type Probe = unsafe extern "C" fn(world: *mut c_void, from: *mut u32, tag: *mut u32, len: *mut usize) -> c_int;
type Receive = unsafe extern "C" fn(world: *mut c_void, bytes: *mut u8, len: usize, request: *mut u32) -> c_int;
type Test = unsafe extern "C" fn(world: *mut c_void, done: *mut u32, space: usize) -> c_int;
type Close = unsafe extern "C" fn(world: *mut c_void);

/// The loaded object.
#[derive(Debug)]
pub struct MpiObject {
    built_for: String,
    library: String,
    functions: Functions,
}

#[derive(Clone, Copy, Debug)]
struct Functions {
    open: Open,
    send: Send,
    probe: Probe,
    receive: Receive,
    test: Test,
    close: Close,
}

/// Facts about an object that are known without joining a world.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ObjectFacts {
    /// The MPI that the object was built for.
    pub built_for: String,
    /// The MPI that is installed.
    pub here: String,
}

impl ObjectFacts {
    /// Whether both name the same MPI in the same version.
    pub fn fits(&self) -> bool {
        let Some((name, version)) = self.built_for.rsplit_once(' ') else { return false };
        let of_version = |c: char| c.is_ascii_alphanumeric() || c == '.';
        let is_version = |word: &str| word.trim_start_matches('v') == version;
        self.here.starts_with(name) && self.here.split(|c| !of_version(c)).any(is_version)
    }
}

impl MpiObject {
    /// Loads the object, which stays loaded.
    ///
    /// # Errors
    /// Returns an error if the object, or the MPI that it was built for, can't be loaded.
    pub fn load(path: &Path) -> io::Result<Self> {
        // The error's source holds the loader's message.
        let failed = |error: libloading::Error| {
            let words = std::error::Error::source(&error).map_or_else(|| error.to_string(), ToString::to_string);
            io::Error::new(ErrorKind::NotFound, words)
        };
        // SAFETY: only the initialisers of the object and of its MPI run.
        let object = unsafe { Library::open(Some(path), RTLD_NOW | RTLD_GLOBAL) }.map_err(failed)?;
        // SAFETY: this function has the same name and type in all versions.
        let interface: Interface = *unsafe { object.get(b"accord_mpi_interface\0") }.map_err(failed)?;
        // SAFETY: the function has no arguments and no preconditions.
        let interface = unsafe { interface() };
        if interface != INTERFACE {
            let why = format!(
                "{} has interface {interface}, {INTERFACE} is needed; build it again (make mpi)",
                path.display()
            );
            return Err(io::Error::new(ErrorKind::InvalidData, why));
        }
        // SAFETY: for all functions below, this version of the interface has these types.
        let built_for: BuiltFor = *unsafe { object.get(b"accord_mpi_built_for\0") }.map_err(failed)?;
        // SAFETY: as above.
        let library: LibraryText = *unsafe { object.get(b"accord_mpi_library\0") }.map_err(failed)?;
        // SAFETY: as above.
        let functions = unsafe {
            Functions {
                open: *object.get(b"accord_mpi_open\0").map_err(failed)?,
                send: *object.get(b"accord_mpi_send\0").map_err(failed)?,
                probe: *object.get(b"accord_mpi_probe\0").map_err(failed)?,
                receive: *object.get(b"accord_mpi_receive\0").map_err(failed)?,
                test: *object.get(b"accord_mpi_test\0").map_err(failed)?,
                close: *object.get(b"accord_mpi_close\0").map_err(failed)?,
            }
        };
        // SAFETY: the function returns a static text that ends with 0.
        let built_for = unsafe { CStr::from_ptr(built_for()) }.to_string_lossy().into_owned();
        let mut text = vec![0_u8; TEXT_MAX];
        // SAFETY: the function writes at most `text.len()` bytes, and needs no world.
        let len = unsafe { library(text.as_mut_ptr().cast(), text.len()) };
        let library = String::from_utf8_lossy(&text[..len.min(TEXT_MAX)]).into_owned();
        // MPI can't be loaded twice, so that the object is never unloaded.
        let _ = object.into_raw();
        Ok(Self { built_for, library, functions })
    }

    /// Returns the MPI that the object was built for, and the installed one.
    pub fn news(&self) -> ObjectFacts {
        ObjectFacts { built_for: self.built_for.clone(), here: self.library.clone() }
    }

    /// Joins the job's world, on the thread that will own it. At most once per process.
    ///
    /// # Errors
    /// Returns MPI's error, or the system's if memory can't be mapped.
    pub fn join(&self) -> io::Result<Box<dyn World>> {
        // Mapped before MPI inspects the address space.
        let short = ShortBuffers::map()?;
        let (mut rank, mut size) = (0, 0);
        let mut why = vec![0_u8; TEXT_MAX];
        // SAFETY: all pointers are to values that outlive the call.
        let world = unsafe { (self.functions.open)(&raw mut rank, &raw mut size, why.as_mut_ptr().cast(), why.len()) };
        if world.is_null() {
            let why = CStr::from_bytes_until_nul(&why).map(CStr::to_string_lossy).unwrap_or_default();
            return Err(io::Error::other(format!("MPI does not start: {why}")));
        }
        let functions = self.functions;
        Ok(Box::new(MpiWorld {
            functions,
            world,
            rank,
            size,
            sends: Vec::new(),
            exposed_sent: VecDeque::new(),
            receives: VecDeque::new(),
            short,
        }))
    }
}

/// The ranks of an MPI job.
struct MpiWorld {
    functions: Functions,
    world: *mut c_void,
    rank: u32,
    size: u32,
    /// Requests of sends in flight, and the bytes that MPI is reading.
    sends: Vec<Sending>,
    /// Exposed buffers that were sent but not reported yet: at most as many as are in flight at once.
    exposed_sent: VecDeque<u64>,
    /// Buffers that MPI is writing or has written, in the order of matching.
    receives: VecDeque<Receiving>,
    /// Declared after the requests, which use these buffers.
    short: ShortBuffers,
}

struct Sending {
    request: u32,
    what: SentBytes,
}

enum SentBytes {
    Message(Vec<u8>),
    Short(ShortBuffer),
    Exposed(u64),
}

struct Receiving {
    from: u32,
    request: u32,
    into: Into,
    done: bool,
}

enum Into {
    Message(Vec<u8>),
    Short(ShortBuffer),
    /// An exposed buffer, with its tag.
    Room(u16),
}

impl MpiWorld {
    fn check(code: c_int, what: &str) -> io::Result<c_int> {
        if code < 0 {
            return Err(io::Error::new(ErrorKind::BrokenPipe, format!("MPI can't {what}: error {}", -i64::from(code))));
        }
        Ok(code)
    }

    /// Receives the next message that has arrived into a new buffer, or into the exposed one for its tag.
    fn begin_receive(&mut self, space: FindReceiveBuffer<'_>) -> io::Result<()> {
        let (mut from, mut tag, mut len, mut request) = (0, 0, 0, 0);
        // SAFETY: the world is open, and the pointers are to values that outlive the call.
        let received = unsafe { (self.functions.probe)(self.world, &raw mut from, &raw mut tag, &raw mut len) };
        if Self::check(received, "look for messages")? == 0 {
            return Ok(());
        }
        let wrong = || io::Error::new(ErrorKind::InvalidData, format!("rank {from} sends {len} bytes with tag {tag}"));
        let tag = u16::try_from(tag).map_err(|_| wrong())?;
        if from >= self.size || (tag == FRAMED && len > MESSAGE_MAX) {
            return Err(wrong());
        }
        let (start, into) = if tag != FRAMED {
            let space = space(from, tag, len)?;
            if !space.enter() {
                return Err(lost_device("receive into"));
            }
            (space.as_mut_ptr(), Into::Room(tag))
        } else if let Some(short) = self.short.take(len) {
            (self.short.start(&short), Into::Short(short))
        } else {
            let mut message = spare::filled(len);
            (message.as_mut_ptr(), Into::Message(message))
        };
        // SAFETY: the buffer holds `len` bytes, and neither moves nor is freed before the request is done: `receives` keeps a
        // message, and the owner of an exposed buffer waits for the request. Closing the world waits for both.
        let code = unsafe { (self.functions.receive)(self.world, start, len, &raw mut request) };
        Self::check(code, "receive")?;
        self.receives.push_back(Receiving { from, request, into, done: false });
        Ok(())
    }

    fn test(&mut self) -> io::Result<Option<ReceivedItem>> {
        if self.sends.is_empty() && self.receives.iter().all(|receive| receive.done) {
            return Ok(self.exposed_sent.pop_front().map(ReceivedItem::Sent));
        }
        let mut looks = if self.moves_exposed() { EXPOSED_POLLS } else { 1 };
        while looks > 0 {
            let mut done = [0_u32; DONE_AT_ONCE];
            // SAFETY: the world is open, and the function writes at most `done.len()` numbers.
            let n = unsafe { (self.functions.test)(self.world, done.as_mut_ptr(), done.len()) };
            let n = Self::check(n, "go on")? as usize;
            done.iter().take(n).for_each(|request| self.is_done(*request));
            // Waiters are notified before the next poll. Fewer numbers than the buffer holds means that no more are done.
            looks = if n == 0 {
                looks - 1
            } else if n < done.len() {
                0
            } else {
                looks
            };
        }
        Ok(self.exposed_sent.pop_front().map(ReceivedItem::Sent))
    }

    fn is_done(&mut self, request: u32) {
        if let Some(receive) = self.receives.iter_mut().find(|receive| !receive.done && receive.request == request) {
            receive.done = true;
        } else if let Some(at) = self.sends.iter().position(|sending| sending.request == request) {
            match self.sends.swap_remove(at).what {
                SentBytes::Message(message) => spare::done(message),
                SentBytes::Short(short) => self.short.give_back(short),
                SentBytes::Exposed(id) => self.exposed_sent.push_back(id),
            }
        }
    }

    fn begin_send(&mut self, to: u32, tag: u16, (start, len): (*const u8, usize), what: SentBytes) -> io::Result<()> {
        let mut request = 0;
        // SAFETY: the bytes neither move nor are freed before the request is done: `sends` keeps a message, and the owner of an
        // exposed buffer waits for the request. Closing the world waits for both.
        let code = unsafe { (self.functions.send)(self.world, to, tag.into(), start, len, &raw mut request) };
        Self::check(code, "send")?;
        self.sends.push(Sending { request, what });
        Ok(())
    }
}

/// Returns the error for a device context that can't be entered.
fn lost_device(what: &str) -> io::Error {
    io::Error::new(ErrorKind::BrokenPipe, format!("MPI can't {what} a device's memory: the device was lost"))
}

impl World for MpiWorld {
    fn rank(&self) -> u32 {
        self.rank
    }

    fn size(&self) -> u32 {
        self.size
    }

    fn send(&mut self, to: u32, message: Vec<u8>) -> io::Result<()> {
        let len = message.len();
        let (start, what) = match self.short.filled(&message) {
            Some(short) => (self.short.start(&short).cast_const(), SentBytes::Short(short)),
            None => (message.as_ptr(), SentBytes::Message(message)),
        };
        self.begin_send(to, FRAMED, (start, len), what)
    }

    fn send_exposed(&mut self, to: u32, tag: u16, bytes: SendBuffer, id: u64) -> io::Result<()> {
        if !bytes.enter() {
            return Err(lost_device("send from"));
        }
        self.begin_send(to, tag, (bytes.as_ptr(), bytes.len()), SentBytes::Exposed(id))
    }

    fn sending(&self) -> (usize, usize) {
        let exposed = self.sends.iter().filter(|sending| matches!(sending.what, SentBytes::Exposed(_)));
        (self.sends.len(), exposed.count())
    }

    fn moves_exposed(&self) -> bool {
        let sends = self.sends.iter().any(|sending| matches!(sending.what, SentBytes::Exposed(_)));
        sends || self.receives.iter().any(|receive| !receive.done && matches!(receive.into, Into::Room(_)))
    }

    fn receive(&mut self, space: FindReceiveBuffer<'_>) -> io::Result<Option<ReceivedItem>> {
        // One at a time: many MPIs copy a message when it is received, and its waiter can continue before the next copy.
        if self.receives.len() < RECEIVES_MAX + usize::from(TAKES_MAX) {
            self.begin_receive(space)?;
        }
        if let Some(sent) = self.test()? {
            return Ok(Some(sent));
        }
        // Messages of one rank keep their order. They do not wait for exposed buffers, which may take long.
        let first = (0..self.receives.len()).find(|&at| {
            let one = &self.receives[at];
            let is_before = |earlier: &&Receiving| earlier.from == one.from && !matches!(earlier.into, Into::Room(_));
            one.done
                && (matches!(one.into, Into::Room(_))
                    || !self.receives.iter().take(at).any(|earlier| is_before(&earlier)))
        });
        Ok(first.and_then(|at| self.receives.remove(at)).map(|receive| match receive.into {
            Into::Message(message) => ReceivedItem::Message(receive.from, message),
            Into::Short(short) => ReceivedItem::Message(receive.from, self.short.read(short)),
            Into::Room(tag) => ReceivedItem::Filled(tag),
        }))
    }
}

impl Drop for MpiWorld {
    fn drop(&mut self) {
        // SAFETY: the world is open, and is not used again.
        unsafe { (self.functions.close)(self.world) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_installed_mpi_is_compared_with_that_of_the_build() {
        let debian = "Open MPI v4.1.4, package: Debian OpenMPI, ident: 4.1.4, repo rev: v4.1.4, May 26, 2022";
        let mpich = "MPICH Version:      4.0.2\nMPICH Release date: Thu Apr  7 12:34:45 CDT 2022";
        let fits = |built_for: &str, here: &str| ObjectFacts { built_for: built_for.into(), here: here.into() }.fits();
        assert!(fits("Open MPI 4.1.4", debian) && fits("MPICH 4.0.2", mpich));
        for (built_for, here) in
            [("Open MPI 4.1", debian), ("Open MPI 5.0.11", debian), ("MPICH 4.0.2", debian), ("", mpich)]
        {
            assert!(!fits(built_for, here), "{built_for}");
        }
    }
}
