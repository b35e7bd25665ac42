//! GPU code on its way here, in pieces.

use accord_device::image::{ENCODED_MAX, Image};
use accord_types::{Error, ErrorCode, Result};

/// The image that is coming.
#[derive(Default)]
pub(crate) struct Arriving(Vec<u8>);

impl Arriving {
    /// Takes the piece from `offset` on of an image whose encoding is `len` bytes. Returns the image with its last piece.
    ///
    /// # Errors
    /// When the piece is not the next one, or the whole is no image or too long.
    pub(crate) fn take(&mut self, piece: &[u8], offset: u64, len: u64) -> Result<Option<Image>> {
        let end = offset.saturating_add(piece.len() as u64);
        if offset != self.0.len() as u64 || piece.is_empty() || end > len || len > ENCODED_MAX {
            return Err(Error::new(
                ErrorCode::ImplementationDefined,
                format!("{} bytes of GPU code from {offset} of {len}, where {} are next", piece.len(), self.0.len()),
            ));
        }
        self.0.extend_from_slice(piece);
        if end < len {
            return Ok(None);
        }
        Image::decode(&std::mem::take(&mut self.0)).map(Some)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image(text: &str) -> Image {
        Image { objects: vec![text.as_bytes().to_vec()], functions: Vec::new(), variables: Vec::new() }
    }

    #[test]
    fn images_come_one_after_the_other() {
        let mut arriving = Arriving::default();
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
        assert!(Arriving::default().take(&bytes[1..], 1, len).is_err());
        assert!(Arriving::default().take(&bytes, 0, len - 1).is_err());
        assert!(Arriving::default().take(&[], 0, len).is_err());
        assert!(Arriving::default().take(&bytes, 0, ENCODED_MAX + 1).is_err());
        assert!(Arriving::default().take(&[0xff; 64], 0, 64).is_err());
        let mut arriving = Arriving::default();
        arriving.take(&bytes[..8], 0, len).unwrap();
        assert!(arriving.take(&bytes[..8], 0, len).is_err());
    }
}
