//! A test daemon in place of MUNGE's, which delays its answers and counts requests.

use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

/// The magic number and version of every message.
const MAGIC: [u8; 5] = [0, 0x60, 0x6d, 0x4b, 4];
const ENCODE: u8 = 2;
const DECODE: u8 = 4;
/// The prefix of this daemon's credentials.
const OWN: &[u8] = b"MUNGE:";

/// A daemon that accepts its own credentials, and reports the same user for all.
pub(crate) struct Munged {
    socket: PathBuf,
    counts: Arc<Counts>,
    _folder: tempfile::TempDir,
}

#[derive(Default)]
struct Counts {
    /// Delay of the answer to a credential.
    pause_ms: AtomicU64,
    asking: AtomicUsize,
    asking_at_once: AtomicUsize,
    asked: AtomicUsize,
}

impl Munged {
    /// Starts the daemon, whose threads end with the test's process.
    pub(crate) fn start(pause: Duration) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("socket");
        let listener = UnixListener::bind(&socket).unwrap();
        let counts = Arc::new(Counts::default());
        let munged = Self { socket, counts: counts.clone(), _folder: folder };
        munged.take(pause);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let counts = counts.clone();
                std::thread::spawn(move || serve(stream, &counts));
            }
        });
        munged
    }

    pub(crate) fn socket(&self) -> &Path {
        &self.socket
    }

    /// Sets the delay of answers.
    pub(crate) fn take(&self, pause: Duration) {
        self.counts.pause_ms.store(u64::try_from(pause.as_millis()).unwrap(), Ordering::SeqCst);
    }

    /// Returns how many credentials were checked, and the most at the same time.
    pub(crate) fn asked(&self) -> (usize, usize) {
        (self.counts.asked.load(Ordering::SeqCst), self.counts.asking_at_once.load(Ordering::SeqCst))
    }
}

/// Serves a client, which may disconnect at any time.
fn serve(mut stream: UnixStream, counts: &Counts) -> Option<()> {
    let mut header = [0; 11];
    stream.read_exact(&mut header).ok()?;
    let (kind, len) = (header[5], u32::from_be_bytes(*header.last_chunk()?));
    let mut body = vec![0; usize::try_from(len).ok()?];
    stream.read_exact(&mut body).ok()?;
    let answer = match kind {
        // The payload follows the options, the permitted readers, and a length.
        ENCODE => [&[0, 0], &data(&[OWN, body.get(20..)?].concat())[..]].concat(),
        DECODE => {
            let asking = counts.asking.fetch_add(1, Ordering::SeqCst) + 1;
            counts.asking_at_once.fetch_max(asking, Ordering::SeqCst);
            counts.asked.fetch_add(1, Ordering::SeqCst);
            std::thread::sleep(Duration::from_millis(counts.pause_ms.load(Ordering::SeqCst)));
            counts.asking.fetch_sub(1, Ordering::SeqCst);
            believed(body.get(4..)?)
        }
        _ => return None,
    };
    let len = u32::try_from(answer.len()).ok()?.to_be_bytes();
    stream.write_all(&[&MAGIC[..], &[kind + 1, 0], &len, &answer].concat()).ok()
}

fn believed(credential: &[u8]) -> Vec<u8> {
    let Some(payload) = credential.strip_prefix(OWN) else { return [&[8, 3][..], b"bad"].concat() };
    // No error; no realm, a lifetime, no address, two times; user 1001, and three further numbers.
    [&[0; 2][..], &[0; 3], &[0], &[0; 4], &[0], &[0; 8], &1001u32.to_be_bytes(), &[0; 12], &data(payload)].concat()
}

/// Returns the bytes after their length.
fn data(bytes: &[u8]) -> Vec<u8> {
    [&u32::try_from(bytes.len()).unwrap().to_be_bytes()[..], bytes].concat()
}
