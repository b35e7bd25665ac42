//! The launch tags of a compute construct.

use accord_types::{AsyncArg, Error, ErrorCode, LaunchDims, Result};
use smallvec::SmallVec;

/// The content of the tags.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Tags {
    /// Sizes that were unknown when the program was compiled; 0 where they were known, or are unspecified.
    pub dims: LaunchDims,
    /// The `async` clause; without one the construct is synchronous.
    pub queue: AsyncArg,
    /// The arguments of the `wait` clause, as written.
    pub waits: SmallVec<[i32; WAITS_INLINE]>,
}

/// A construct that waits for more queues allocates a list of them.
const WAITS_INLINE: usize = 4;

const DIM: u32 = 1;
const ASYNC: u32 = 2;
const WAIT: u32 = 3;
/// The async value is in the next word.
const NEXT: u32 = 0xffff;

impl Tags {
    /// Decodes the launch tags with their operands, up to the final 0.
    ///
    /// # Errors
    /// Returns `acc_error_invalid_argument` for a tag without a known meaning or a list that ends early,
    /// `acc_error_invalid_async`.
    #[inline]
    pub fn decode(words: impl IntoIterator<Item = u32>) -> Result<Self> {
        let mut words = words.into_iter();
        let mut next = || words.next().ok_or_else(short);
        let mut tags = Self { dims: LaunchDims::default(), queue: AsyncArg::Sync, waits: SmallVec::new() };
        loop {
            let word = next()?;
            let (code, op) = (word >> 28, word & 0xffff);
            match code {
                0 if word == 0 => return Ok(tags),
                DIM => {
                    for (bit, dim) in
                        [&mut tags.dims.gangs, &mut tags.dims.workers, &mut tags.dims.vector].into_iter().enumerate()
                    {
                        if op & (1 << bit) != 0 {
                            *dim = next()?;
                        }
                    }
                }
                ASYNC => {
                    let value = if op == NEXT { next()?.cast_signed() } else { op.cast_signed() };
                    tags.queue = AsyncArg::from_raw(value)?;
                }
                WAIT => {
                    tags.waits.clear();
                    for _ in 0..op {
                        tags.waits.push(next()?.cast_signed());
                    }
                }
                _ => return Err(unknown(word)),
            }
        }
    }
}

#[cold]
fn unknown(word: u32) -> Error {
    Error::new(ErrorCode::InvalidArgument, format!("launch tag {word:#x} has no known meaning"))
        .remedy("compile with a released version of GCC, 12 or later")
}

#[cold]
fn short() -> Error {
    Error::new(ErrorCode::InvalidArgument, "the list of launch tags ends early")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decode(words: &[u32]) -> Result<Tags> {
        Tags::decode(words.iter().copied())
    }

    #[test]
    fn tags_as_gcc_writes_them() {
        let tags = decode(&[0x1000_0007, 10, 4, 64, 0x2000_ffff, 70_000, 0x3000_0002, 5, 4, 0]).unwrap();
        assert_eq!(tags.dims, LaunchDims { gangs: 10, workers: 4, vector: 64 });
        assert_eq!((tags.queue, &tags.waits[..]), (AsyncArg::Queue(70_000), &[5, 4][..]));
        let tags = decode(&[0x1000_0004, 128, 0x2000_0001, 0]).unwrap();
        assert_eq!((tags.dims.vector, tags.dims.gangs, tags.queue), (128, 0, AsyncArg::Queue(1)));
        let tags = decode(&[0x2000_ffff, u32::MAX, 0x3000_0001, u32::MAX, 0]).unwrap();
        assert_eq!((tags.queue, &tags.waits[..]), (AsyncArg::NoVal, &[-1][..]));
        assert_eq!(decode(&[0]).unwrap().queue, AsyncArg::Sync);
    }

    #[test]
    fn trap_32_gang_counts_have_32_bits() {
        let tags = decode(&[0x1000_0001, 1_000_000, 0]).unwrap();
        assert_eq!(tags.dims.gangs, 1_000_000);
    }

    #[test]
    fn malformed_launch_tags_are_refused() {
        assert_eq!(decode(&[0x4000_0000, 0]).unwrap_err().code(), ErrorCode::InvalidArgument);
        assert_eq!(decode(&[0x3000_0002, 1, 0][..2]).unwrap_err().code(), ErrorCode::InvalidArgument);
        assert_eq!(decode(&[]).unwrap_err().code(), ErrorCode::InvalidArgument);
        assert_eq!(decode(&[0x2000_ffff, (-7i32).cast_unsigned(), 0]).unwrap_err().code(), ErrorCode::InvalidAsync);
    }

    #[test]
    fn nothing_behind_the_end_is_taken() {
        let mut words = [0x2000_0003, 0].into_iter().chain(std::iter::from_fn(|| panic!("it was taken")));
        assert_eq!(Tags::decode(&mut words).unwrap().queue, AsyncArg::Queue(3));
        let mut words = [0x4000_0000].into_iter().chain(std::iter::from_fn(|| panic!("it was taken")));
        assert!(Tags::decode(&mut words).is_err());
    }
}
