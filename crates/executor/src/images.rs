//! Receives GPU code in pieces, and bounds its size.

use accord_device::image::{ENCODED_MAX, Image};
use accord_types::{Error, ErrorCode, Result};

/// Most images of a program that an executor keeps. A program has one for each of its objects that has regions.
const IMAGES_MAX: usize = 4_096;
/// Most bytes of these images, encoded: hundreds of images of some MiB each.
const IMAGES_BYTES_MAX: u64 = 1 << 30;

/// The images of a program: the one that is being received, and counts of the received ones.
pub(crate) struct ReceivedImages {
    coming: Vec<u8>,
    /// Number of received images, which are kept until the session ends.
    count: usize,
    /// Bytes of these images.
    bytes: u64,
    /// Most images.
    count_max: usize,
    /// Most bytes of images.
    bytes_max: u64,
}

impl Default for ReceivedImages {
    fn default() -> Self {
        Self::with_limits(IMAGES_MAX, IMAGES_BYTES_MAX)
    }
}

impl ReceivedImages {
    fn with_limits(count_max: usize, bytes_max: u64) -> Self {
        Self { coming: Vec::new(), count: 0, bytes: 0, count_max, bytes_max }
    }

    /// Appends the piece at `offset` of an image whose encoding has `len` bytes. Returns the image after its last piece.
    ///
    /// # Errors
    /// Returns an error if the piece is not the next one, the image is invalid or too long, or the images exceed their
    /// bounds.
    pub(crate) fn take(&mut self, piece: &[u8], offset: u64, len: u64) -> Result<Option<Image>> {
        let (next, end) = (self.coming.len(), offset.saturating_add(piece.len() as u64));
        if offset != next as u64 || piece.is_empty() || end > len || len > ENCODED_MAX {
            return Err(Error::new(
                ErrorCode::ImplementationDefined,
                format!("{} bytes of GPU code from {offset} of {len}, where {next} are next", piece.len()),
            ));
        }
        // Each piece repeats the length, which may differ.
        self.check_space(len)?;
        self.coming.extend_from_slice(piece);
        if end < len {
            return Ok(None);
        }
        let image = Image::decode(&std::mem::take(&mut self.coming))?;
        self.count += 1;
        self.bytes += len;
        Ok(Some(image))
    }

    /// Checks that an image of so many bytes fits.
    fn check_space(&self, len: u64) -> Result<()> {
        let (count, bytes) = (self.count, self.bytes);
        let full = if count >= self.count_max {
            format!("one more image of GPU code than the {} that a program may have on a node", self.count_max)
        } else if bytes + len > self.bytes_max {
            format!(
                "{len} bytes of GPU code beside {bytes} in {count} images; a program may have {} on a node",
                self.bytes_max
            )
        } else {
            return Ok(());
        };
        Err(Error::new(ErrorCode::DeviceInit, full)
            .remedy("load fewer shared objects with OpenACC regions into one program"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn image(text: &str) -> Image {
        Image { objects: vec![text.as_bytes().to_vec()], functions: Vec::new(), variables: Vec::new() }
    }

    #[test]
    fn images_come_one_after_the_other() {
        let mut arriving = ReceivedImages::default();
        for text in [".version 6.0 // first", ".version 6.0 // second, and longer"] {
            let bytes = image(text).encode().unwrap();
            let (head, tail) = bytes.split_at(7);
            assert_eq!(arriving.take(head, 0, bytes.len() as u64).unwrap(), None);
            assert_eq!(arriving.take(tail, 7, bytes.len() as u64).unwrap(), Some(image(text)));
        }
    }

    #[test]
    fn a_piece_that_is_not_the_next_is_refused() {
        let bytes = image("text").encode().unwrap();
        let len = bytes.len() as u64;
        assert!(ReceivedImages::default().take(&bytes[1..], 1, len).is_err());
        assert!(ReceivedImages::default().take(&bytes, 0, len - 1).is_err());
        assert!(ReceivedImages::default().take(&[], 0, len).is_err());
        assert!(ReceivedImages::default().take(&bytes, 0, ENCODED_MAX + 1).is_err());
        assert!(ReceivedImages::default().take(&[0xff; 64], 0, 64).is_err());
        let mut arriving = ReceivedImages::default();
        arriving.take(&bytes[..8], 0, len).unwrap();
        assert!(arriving.take(&bytes[..8], 0, len).is_err());
    }

    #[test]
    fn images_beyond_the_limit_are_refused_when_announced() {
        let mut arriving = ReceivedImages::default();
        let bytes = image("text").encode().unwrap();
        for _ in 0..IMAGES_MAX {
            assert!(arriving.take(&bytes, 0, bytes.len() as u64).unwrap().is_some());
        }
        let error = arriving.take(&bytes[..1], 0, bytes.len() as u64).unwrap_err();
        assert!(error.cause().contains("the 4096 that a program may have") && error.remedy_text().is_some(), "{error}");

        let mut arriving = ReceivedImages { bytes: IMAGES_BYTES_MAX - 100, count: 9, ..ReceivedImages::default() };
        let error = arriving.take(&[1], 0, 101).unwrap_err();
        assert!(error.cause().contains("101 bytes of GPU code beside 1073741724 in 9 images"), "{error}");
        assert!(arriving.coming.is_empty(), "it has begun");
        assert_eq!(arriving.take(&[1], 0, 100).unwrap(), None);
        assert!(arriving.take(&[1], 1, 101).is_err(), "it has grown meanwhile");
    }

    proptest! {
        /// In any order of pieces, the kept images and the one being received are bounded.
        #[test]
        fn images_that_are_kept_are_bounded(steps in prop::collection::vec((0..400usize, 1..5usize, any::<bool>()), 1..40)) {
            const COUNT_MAX: usize = 8;
            const BYTES_MAX: u64 = 2_000;
            let mut arriving = ReceivedImages::with_limits(COUNT_MAX, BYTES_MAX);
            let (mut count, mut bytes) = (0, 0);
            for (size, pieces, false_claims) in steps {
                let whole = image(&"x".repeat(size)).encode().unwrap();
                let len = whole.len() as u64;
                let fits = count < COUNT_MAX && bytes + len <= BYTES_MAX;
                let mut offset = 0;
                for piece in whole.chunks(whole.len().div_ceil(pieces)) {
                    // A faulty program claims at the end that the image continues.
                    let last = offset + piece.len() as u64 == len;
                    let printed = if false_claims && last { BYTES_MAX } else { len };
                    let taken = arriving.take(piece, offset, printed);
                    offset += piece.len() as u64;
                    prop_assert!(bytes + arriving.coming.len() as u64 <= BYTES_MAX);
                    match taken {
                        Ok(None) => prop_assert!(fits && !(last && printed == len)),
                        Ok(Some(_)) => {
                            prop_assert!(fits && last);
                            count += 1;
                            bytes += len;
                        }
                        Err(_) => {
                            // The error ends the session.
                            prop_assert!(!fits || printed > BYTES_MAX - bytes);
                            return Ok(());
                        }
                    }
                    prop_assert!(count <= COUNT_MAX && bytes <= BYTES_MAX);
                }
                if false_claims {
                    return Ok(());
                }
            }
        }
    }
}
