//! The register of issued certificates: a file in the authority's folder, with a line for each. The last line of a name
//! counts.

use crate::name::PeerName;
use accord_types::{Error, ErrorCode, Result};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::Duration;

/// File name of the register.
pub const REGISTER_FILE: &str = "issued";
/// Longest register that is read, in bytes: some 500,000 lines.
const BYTES_MAX: u64 = 32 << 20;

/// Adds the certificate of `name` with its expiry.
///
/// # Errors
/// Returns `acc_error_system` if the file can't be written.
pub(crate) fn add(authority: &Path, name: &PeerName, expiry: Duration) -> Result<()> {
    let path = authority.join(REGISTER_FILE);
    let open = File::options().append(true).create(true).mode(0o600).open(&path);
    open.and_then(|mut file| file.write_all(format!("{} {name}\n", expiry.as_secs()).as_bytes()))
        .map_err(|error| Error::new(ErrorCode::System, format!("cannot write {}: {error}", path.display())))
}

/// Returns the names that an authority has issued certificates for, each with its newest expiry, counted from 1970.
///
/// # Errors
/// Returns `acc_error_invalid_argument` if the register can't be read.
pub fn issued(authority: &Path) -> Result<Vec<(PeerName, Duration)>> {
    let path = authority.join(REGISTER_FILE);
    let bad = |why: String| Error::new(ErrorCode::InvalidArgument, format!("{}: {why}", path.display()));
    let mut text = String::new();
    match File::open(&path) {
        Ok(file) => file.take(BYTES_MAX).read_to_string(&mut text).map_err(|error| bad(error.to_string()))?,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(bad(error.to_string())),
    };
    let mut newest = BTreeMap::new();
    for line in text.lines() {
        let (expiry, name) = line.split_once(' ').unwrap_or_default();
        let (Ok(expiry), Ok(parsed)) = (expiry.parse(), name.parse::<PeerName>()) else {
            return Err(bad(format!("{line:?} is no time and name")).remedy("take the line out"));
        };
        newest.insert(name.to_owned(), (parsed, Duration::from_secs(expiry)));
    }
    Ok(newest.into_values().collect())
}
