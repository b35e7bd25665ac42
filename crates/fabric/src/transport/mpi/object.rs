//! MPI itself, in an object of its own (`mpi/` in the repository): nothing else is linked with MPI, so that all runs where there is none.
//!
//! The object is loaded so that its libraries' symbols are seen by all: Open MPI loads parts of itself, and these look for them.

use super::spare;
use super::world::World;
use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_NOW};
use std::collections::VecDeque;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::io::{self, ErrorKind};
use std::path::Path;

/// The functions below, in this form. The object says which it has.
const INTERFACE: u32 = 1;
/// Messages that are received at one time.
const RECEIVES_MAX: usize = 32;
/// Longest message: what is announced is not believed.
const MESSAGE_MAX: usize = super::message::HEADER_LEN + super::message::DATA_MAX;
/// Longest text that the object gives.
const TEXT_MAX: usize = 8 << 10;

type Interface = unsafe extern "C" fn() -> u32;
type BuiltFor = unsafe extern "C" fn() -> *const c_char;
type LibraryText = unsafe extern "C" fn(text: *mut c_char, room: usize) -> usize;
type Open = unsafe extern "C" fn(rank: *mut u32, size: *mut u32, why: *mut c_char, room: usize) -> *mut c_void;
type Send = unsafe extern "C" fn(world: *mut c_void, to: u32, bytes: *const u8, len: usize, request: *mut u32) -> c_int;
type Probe = unsafe extern "C" fn(world: *mut c_void, from: *mut u32, len: *mut usize) -> c_int;
type Receive = unsafe extern "C" fn(world: *mut c_void, bytes: *mut u8, len: usize, request: *mut u32) -> c_int;
type Test = unsafe extern "C" fn(world: *mut c_void, done: *mut u32, room: usize) -> c_int;
type Close = unsafe extern "C" fn(world: *mut c_void);

/// The object, loaded.
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

/// What is known of an object without joining a world.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ObjectNews {
    /// The MPI that it was built for.
    pub built_for: String,
    /// The MPI that is here.
    pub here: String,
}

impl ObjectNews {
    /// Whether it is the same MPI, in the same version.
    pub fn fits(&self) -> bool {
        let Some((name, version)) = self.built_for.rsplit_once(' ') else { return false };
        let of_version = |c: char| c.is_ascii_alphanumeric() || c == '.';
        let is_version = |word: &str| word.trim_start_matches('v') == version;
        self.here.starts_with(name) && self.here.split(|c| !of_version(c)).any(is_version)
    }
}

impl MpiObject {
    /// Loads the object, which stays for the rest of the process.
    ///
    /// # Errors
    /// If it, or the MPI that it was built for, is not here.
    pub fn load(path: &Path) -> io::Result<Self> {
        // The loader's own words are below it.
        let failed = |error: libloading::Error| {
            let words = std::error::Error::source(&error).map_or_else(|| error.to_string(), ToString::to_string);
            io::Error::new(ErrorKind::NotFound, words)
        };
        // SAFETY: what runs when it is loaded is the object's own, and its MPI's.
        let object = unsafe { Library::open(Some(path), RTLD_NOW | RTLD_GLOBAL) }.map_err(failed)?;
        // SAFETY: the name is that of this function in all versions.
        let interface: Interface = *unsafe { object.get(b"accord_mpi_interface\0") }.map_err(failed)?;
        // SAFETY: it takes nothing and has no conditions.
        let interface = unsafe { interface() };
        if interface != INTERFACE {
            let why = format!(
                "{} has interface {interface}, {INTERFACE} is needed; build it again (make mpi)",
                path.display()
            );
            return Err(io::Error::new(ErrorKind::InvalidData, why));
        }
        // SAFETY: these are the types of the functions in this version of the interface, here and below.
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
        // SAFETY: it returns a text that ends with 0 and is never freed.
        let built_for = unsafe { CStr::from_ptr(built_for()) }.to_string_lossy().into_owned();
        let mut text = vec![0_u8; TEXT_MAX];
        // SAFETY: it writes no more than there is room for, and needs no world.
        let len = unsafe { library(text.as_mut_ptr().cast(), text.len()) };
        let library = String::from_utf8_lossy(&text[..len.min(TEXT_MAX)]).into_owned();
        // MPI can't be loaded twice, so it is never given back.
        let _ = object.into_raw();
        Ok(Self { built_for, library, functions })
    }

    /// Which MPI it is.
    pub fn news(&self) -> ObjectNews {
        ObjectNews { built_for: self.built_for.clone(), here: self.library.clone() }
    }

    /// Joins the world of this job, on the thread that is to have it. Once in a process.
    ///
    /// # Errors
    /// What MPI says.
    pub fn join(&self) -> io::Result<Box<dyn World>> {
        let (mut rank, mut size) = (0, 0);
        let mut why = vec![0_u8; TEXT_MAX];
        // SAFETY: all pointers are to what lives longer than the call.
        let world = unsafe { (self.functions.open)(&raw mut rank, &raw mut size, why.as_mut_ptr().cast(), why.len()) };
        if world.is_null() {
            let why = CStr::from_bytes_until_nul(&why).map(CStr::to_string_lossy).unwrap_or_default();
            return Err(io::Error::other(format!("MPI does not start: {why}")));
        }
        let functions = self.functions;
        Ok(Box::new(MpiWorld { functions, world, rank, size, sends: Vec::new(), receives: VecDeque::new() }))
    }
}

/// The ranks of an MPI job.
struct MpiWorld {
    functions: Functions,
    world: *mut c_void,
    rank: u32,
    size: u32,
    /// Bytes under way, which MPI reads, with their requests.
    sends: Vec<(u32, Vec<u8>)>,
    /// What MPI writes or has written, in the order in which it was matched.
    receives: VecDeque<Receiving>,
}

struct Receiving {
    from: u32,
    request: u32,
    message: Vec<u8>,
    done: bool,
}

impl MpiWorld {
    fn check(code: c_int, what: &str) -> io::Result<c_int> {
        if code < 0 {
            return Err(io::Error::new(ErrorKind::BrokenPipe, format!("MPI can't {what}: error {}", -i64::from(code))));
        }
        Ok(code)
    }

    /// Takes a message that has come into a buffer of its own.
    fn begin_receive(&mut self) -> io::Result<bool> {
        let (mut from, mut len, mut request) = (0, 0, 0);
        // SAFETY: the world is open, and the pointers are to what lives longer than the call.
        let came = unsafe { (self.functions.probe)(self.world, &raw mut from, &raw mut len) };
        if Self::check(came, "look for messages")? == 0 {
            return Ok(false);
        }
        if len > MESSAGE_MAX || from >= self.size {
            return Err(io::Error::new(ErrorKind::InvalidData, format!("rank {from} sends {len} bytes at one time")));
        }
        let mut message = spare::filled(len);
        // SAFETY: the buffer has `len` bytes, and neither moves nor ends before the request is done: it is kept in `receives`, and closing
        // the world waits for it.
        let code = unsafe { (self.functions.receive)(self.world, message.as_mut_ptr(), len, &raw mut request) };
        Self::check(code, "receive")?;
        self.receives.push_back(Receiving { from, request, message, done: false });
        Ok(true)
    }

    fn test(&mut self) -> io::Result<()> {
        if self.sends.is_empty() && self.receives.iter().all(|receive| receive.done) {
            return Ok(());
        }
        let mut done = [0_u32; 64];
        // SAFETY: the world is open; it writes no more numbers than there is room for.
        let n = unsafe { (self.functions.test)(self.world, done.as_mut_ptr(), done.len()) };
        let n = usize::try_from(Self::check(n, "go on")?).unwrap_or(0);
        for request in done.iter().take(n) {
            if let Some(at) = self.sends.iter().position(|(sending, _)| sending == request) {
                spare::done(self.sends.swap_remove(at).1);
            }
            if let Some(receive) = self.receives.iter_mut().find(|receive| !receive.done && receive.request == *request)
            {
                receive.done = true;
            }
        }
        Ok(())
    }
}

impl World for MpiWorld {
    fn rank(&self) -> u32 {
        self.rank
    }

    fn size(&self) -> u32 {
        self.size
    }

    fn send(&mut self, to: u32, message: Vec<u8>) -> io::Result<()> {
        let mut request = 0;
        // SAFETY: the bytes neither move nor end before the request is done: they are kept in `sends`, and closing the world waits for it.
        let code = unsafe { (self.functions.send)(self.world, to, message.as_ptr(), message.len(), &raw mut request) };
        Self::check(code, "send")?;
        self.sends.push((request, message));
        Ok(())
    }

    fn sending(&self) -> usize {
        self.sends.len()
    }

    fn receive(&mut self) -> io::Result<Option<(u32, Vec<u8>)>> {
        while self.receives.len() < RECEIVES_MAX && self.begin_receive()? {}
        self.test()?;
        // Each rank's in their order: one that is done waits for those before it.
        let first = (0..self.receives.len()).find(|&at| {
            let one = &self.receives[at];
            one.done && !self.receives.iter().take(at).any(|earlier| earlier.from == one.from)
        });
        Ok(first.and_then(|at| self.receives.remove(at)).map(|receive| (receive.from, receive.message)))
    }
}

impl Drop for MpiWorld {
    fn drop(&mut self) {
        // SAFETY: the world is open, and not used again.
        unsafe { (self.functions.close)(self.world) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mpi_that_is_here_is_compared_with_the_one_that_was_there() {
        let debian = "Open MPI v4.1.4, package: Debian OpenMPI, ident: 4.1.4, repo rev: v4.1.4, May 26, 2022";
        let mpich = "MPICH Version:      4.0.2\nMPICH Release date: Thu Apr  7 12:34:45 CDT 2022";
        let fits = |built_for: &str, here: &str| ObjectNews { built_for: built_for.into(), here: here.into() }.fits();
        assert!(fits("Open MPI 4.1.4", debian) && fits("MPICH 4.0.2", mpich));
        for (built_for, here) in
            [("Open MPI 4.1", debian), ("Open MPI 5.0.11", debian), ("MPICH 4.0.2", debian), ("", mpich)]
        {
            assert!(!fits(built_for, here), "{built_for}");
        }
    }
}
