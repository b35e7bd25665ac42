//! A description of a program's GPU code, which libacc gathers in the program's process and `accord explain` prints.

use super::Image;
use accord_types::{Error, ErrorCode, Result};
use rkyv::rancor::Failure;
use rkyv::util::AlignedVec;
use rkyv::{Archive, Deserialize, Serialize};

/// The environment variable of a program that should describe its GPU code instead of running: `PID:PATH`, its starting process
/// and the file for the description. Another process that has the variable, such as the program's own child, runs as usual.
pub const EXPLAIN_ENV: &str = "ACCORD_INTERNAL_EXPLAIN";

/// A program's executable, or a shared object with regions.
#[derive(Archive, Serialize, Deserialize, Clone, PartialEq, Eq, Debug)]
pub struct ProgramObject {
    /// The object's file.
    pub path: String,
    /// Whether it is the executable.
    pub executable: bool,
    /// Whether the object calls OpenACC, by its imported names.
    pub openacc: bool,
    /// Number of regions in GCC's list, which exists with and without code for GPUs.
    pub regions: u64,
    /// The object's code for NVIDIA GPUs: one image, or its defect.
    pub image: Option<Result<ProgramImage, String>>,
}

/// An object's image, with the object's matching symbols.
#[derive(Archive, Serialize, Deserialize, Clone, PartialEq, Eq, Debug)]
pub struct ProgramImage {
    /// The image.
    pub image: Image,
    /// The host versions of [`Image::functions`].
    pub regions: Vec<HostRegion>,
    /// The program's own variables to [`Image::variables`].
    pub variables: Vec<HostVariable>,
}

/// The host version of a region.
#[derive(Archive, Serialize, Deserialize, Clone, PartialEq, Eq, Debug)]
pub struct HostRegion {
    /// Offset of the code from the object's load address.
    pub offset: u64,
    /// The symbol, unless the object is stripped.
    pub name: Option<String>,
}

/// A variable with a `declare` clause.
#[derive(Archive, Serialize, Deserialize, Clone, Copy, PartialEq, Eq, Debug)]
pub struct HostVariable {
    /// Size in bytes.
    pub bytes: u64,
    /// Whether the variable has a `link` clause, so that devices have only its address.
    pub link: bool,
}

/// The first bytes: both sides must have the same version.
const MAGIC: &str = concat!("accord ", env!("CARGO_PKG_VERSION"), "\n");

/// Encodes objects.
///
/// # Errors
/// Returns `acc_error_implementation_defined` if they can't be encoded.
pub fn encode_program(objects: &Vec<ProgramObject>) -> Result<Vec<u8>> {
    let bytes = rkyv::to_bytes::<Failure>(objects)
        .map_err(|_| Error::new(ErrorCode::ImplementationDefined, "the program's GPU code can't be described"))?;
    Ok([MAGIC.as_bytes(), &bytes].concat())
}

/// Decodes objects from untrusted bytes. Returns `None` if these are no description by the same version.
pub fn decode_program(bytes: &[u8]) -> Option<Vec<ProgramObject>> {
    let bytes = bytes.strip_prefix(MAGIC.as_bytes())?;
    let mut aligned = AlignedVec::<16>::with_capacity(bytes.len());
    aligned.extend_from_slice(bytes);
    rkyv::from_bytes::<_, Failure>(&aligned).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ImageFunction, ImageVariable};

    #[test]
    fn a_description_comes_back_whole_or_not_at_all() {
        let image = Image {
            objects: vec![b".version 6.0".to_vec()],
            functions: vec![ImageFunction { name: "f".to_owned(), dims: [0, 1, 32] }],
            variables: vec![ImageVariable { name: "v$linkptr".to_owned() }],
        };
        let regions = vec![HostRegion { offset: 0x1000, name: None }];
        let variables = vec![HostVariable { bytes: 400, link: true }];
        let object =
            |image| ProgramObject { path: "/app".to_owned(), executable: true, openacc: true, regions: 1, image };
        let objects = vec![
            object(Some(Ok(ProgramImage { image, regions, variables }))),
            object(Some(Err("it is of another version".to_owned()))),
            object(None),
        ];
        let bytes = encode_program(&objects).unwrap();
        assert_eq!(decode_program(&bytes), Some(objects));
        assert_eq!(decode_program(&bytes[..bytes.len() - 9]), None);
        assert_eq!(decode_program(&bytes[1..]), None);
        assert_eq!(decode_program(b""), None);
    }
}
