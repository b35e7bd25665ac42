//! Encodes an image for other processes.

use super::Image;
use accord_types::{Error, ErrorCode, Result};
use rkyv::rancor::Failure;
use rkyv::util::AlignedVec;

/// Longest encoded image, in bytes: far above any program's, and the bound on what a peer makes a process hold.
pub const ENCODED_MAX: u64 = 256 << 20;

impl Image {
    /// Encodes the image.
    ///
    /// # Errors
    /// Returns `acc_error_device_init` if the encoding is longer than [`ENCODED_MAX`].
    pub fn encode(&self) -> Result<Vec<u8>> {
        let bytes = rkyv::to_bytes::<Failure>(self)
            .map_err(|_| Error::new(ErrorCode::ImplementationDefined, "an image can't be encoded"))?;
        if bytes.len() as u64 > ENCODED_MAX {
            let cause = format!("{} bytes of GPU code; {ENCODED_MAX} can be sent to another node", bytes.len());
            return Err(
                Error::new(ErrorCode::DeviceInit, cause).remedy("divide the program into several shared objects")
            );
        }
        Ok(bytes.into_vec())
    }

    /// Decodes an image from untrusted bytes.
    ///
    /// # Errors
    /// Returns `acc_error_implementation_defined` if they are malformed.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let mut aligned = AlignedVec::<16>::with_capacity(bytes.len());
        aligned.extend_from_slice(bytes);
        rkyv::from_bytes::<Self, Failure>(&aligned)
            .map_err(|_| Error::new(ErrorCode::ImplementationDefined, "GPU code from a peer is malformed"))
    }
}

#[cfg(test)]
mod tests {
    use crate::{Image, ImageFunction, ImageVariable};
    use proptest::prelude::*;

    fn image() -> Image {
        Image {
            objects: vec![b".version 6.0".to_vec(), Vec::new()],
            functions: vec![ImageFunction { name: "main$_omp_fn$0".to_owned(), dims: [0, 1, 32] }],
            variables: vec![ImageVariable { name: "table".to_owned() }],
        }
    }

    #[test]
    fn an_image_comes_back_whole_and_keeps_its_identity() {
        let bytes = image().encode().unwrap();
        // Bytes from a lane have any alignment.
        let shifted = [&[0][..], &bytes].concat();
        let back = Image::decode(&shifted[1..]).unwrap();
        assert_eq!(back, image());
        assert_eq!(back.id(), image().id());
    }

    proptest! {
        #[test]
        fn other_bytes_are_refused_or_taken_but_never_a_panic(
            garbage: Vec<u8>,
            changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        ) {
            let _ = Image::decode(&garbage);
            let mut bytes = image().encode().unwrap();
            for (at, value) in changes {
                let at = at.index(bytes.len());
                bytes[at] = value;
            }
            let _ = Image::decode(&bytes);
        }
    }
}
