//! The threads' copy to the program's memory.

/// Copies bytes that this core will not read soon, bypassing its caches, which saves reading the target first.
///
/// # Safety
/// As for `copy_nonoverlapping`.
pub(crate) unsafe fn move_past_caches(to: *mut u8, from: *const u8, len: usize) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{__m128i, _mm_loadu_si128, _mm_sfence, _mm_stream_si128};
        const LINE: usize = 64;
        let head = to.align_offset(LINE).min(len);
        let lines = (len - head) / LINE;
        // SAFETY: all offsets lie within `len`; the target of each line is aligned.
        unsafe {
            to.copy_from_nonoverlapping(from, head);
            let (mut target, mut source) = (to.add(head).cast::<__m128i>(), from.add(head).cast::<__m128i>());
            for _ in 0..lines {
                let words = [
                    _mm_loadu_si128(source),
                    _mm_loadu_si128(source.add(1)),
                    _mm_loadu_si128(source.add(2)),
                    _mm_loadu_si128(source.add(3)),
                ];
                _mm_stream_si128(target, words[0]);
                _mm_stream_si128(target.add(1), words[1]);
                _mm_stream_si128(target.add(2), words[2]);
                _mm_stream_si128(target.add(3), words[3]);
                (target, source) = (target.add(4), source.add(4));
            }
            // Other cores, and the device, see these lines before later writes.
            _mm_sfence();
            let rest = head + lines * LINE;
            to.add(rest).copy_from_nonoverlapping(from.add(rest), len - rest);
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    // SAFETY: the caller's promise.
    unsafe {
        to.copy_from_nonoverlapping(from, len);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_bytes_are_moved_wherever_they_lie() {
        let from: Vec<u8> = (0..1000u32).map(|i| (i * 7 % 251) as u8).collect();
        for (start, at, len) in [(0, 0, 1000), (1, 0, 999), (0, 3, 500), (5, 64, 64), (7, 1, 0), (9, 13, 63)] {
            let mut to = vec![0xee; 1200];
            // SAFETY: both ranges are inside their vectors.
            unsafe { move_past_caches(to.as_mut_ptr().add(at), from.as_ptr().add(start), len) };
            assert_eq!(to[at..at + len], from[start..start + len]);
            assert!(to[..at].iter().chain(&to[at + len..]).all(|byte| *byte == 0xee));
        }
    }
}
