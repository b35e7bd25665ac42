//! A pool of message buffers. New memory costs a page fault for every 4 KiB, and unmapping it interrupts all CPUs.

use super::message::{DATA_MAX, HEADER_LEN};
use accord_types::short_lock::{ShortGuard, ShortLock};

/// Longest message.
const LONGEST: usize = HEADER_LEN + DATA_MAX;
/// Shorter buffers are allocated each time.
const SHORT: usize = DATA_MAX / 8;
/// Most pooled buffers: 16 MiB, which two lanes may have in flight.
const SPARES_MAX: usize = 128;

static SPARES: ShortLock<Vec<Vec<u8>>> = ShortLock::new(Vec::new());

/// Returns an empty buffer for at least `len` bytes.
pub(super) fn empty(len: usize) -> Vec<u8> {
    if len < SHORT {
        return Vec::with_capacity(len);
    }
    let mut buffer = spares().pop().unwrap_or_else(|| Vec::with_capacity(LONGEST));
    buffer.clear();
    buffer
}

/// Returns a buffer of `len` bytes with arbitrary contents.
pub(super) fn filled(len: usize) -> Vec<u8> {
    if len < SHORT {
        return vec![0; len];
    }
    let mut buffer = spares().pop().unwrap_or_else(|| Vec::with_capacity(LONGEST));
    // `resize` writes only the bytes that the buffer does not hold yet.
    buffer.resize(len, 0);
    buffer
}

/// Returns a buffer to the pool.
pub(super) fn done(buffer: Vec<u8>) {
    if buffer.capacity() < LONGEST {
        return;
    }
    let mut spares = spares();
    if spares.len() < SPARES_MAX {
        spares.push(buffer);
    }
}

fn spares() -> ShortGuard<'static, Vec<Vec<u8>>> {
    SPARES.lock()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_buffers_are_reused_up_to_a_bound() {
        let mut buffer = filled(LONGEST);
        buffer[LONGEST - 1] = 7;
        let at = buffer.as_ptr();
        done(buffer);
        let buffer = empty(SHORT);
        assert_eq!((buffer.as_ptr(), buffer.len(), buffer.capacity()), (at, 0, LONGEST));
        done(buffer);
        let buffer = filled(SHORT + 1);
        assert_eq!((buffer.as_ptr(), buffer.len()), (at, SHORT + 1));
        done(buffer);
        // Short buffers are not pooled.
        done(filled(SHORT - 1));
        done(empty(SHORT - 1));
        assert_eq!(spares().len(), 1);
        let all: Vec<_> = (0..2 * SPARES_MAX).map(|_| filled(LONGEST)).collect();
        all.into_iter().for_each(done);
        assert_eq!(spares().len(), SPARES_MAX);
        assert!(filled(LONGEST).capacity() == LONGEST && filled(3) == [0; 3]);
    }
}
