//! Opens the database of the state file.

use super::error::{StoreError, explain, wrong};
use redb::{Builder, Database, DatabaseError, StorageError, TableDefinition};
use std::fs::{File, OpenOptions};
use std::io::ErrorKind;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

pub(super) const RECORDS: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("records");
pub(super) const META: TableDefinition<'_, &str, u64> = TableDefinition::new("meta");

pub(super) const FORMAT_KEY: &str = "format";
pub(super) const EPOCH_KEY: &str = "epoch";
pub(super) const NOW_KEY: &str = "now";
pub(super) const UNIX_KEY: &str = "unix-ms";
pub(super) const BOOT_KEY: &str = "boot";
pub(super) const UPTIME_KEY: &str = "uptime-ms";

/// Size of the page cache, in bytes.
const CACHE_BYTES: usize = 64 << 20;

/// Makes the folder's entry for a file durable.
pub(super) fn sync_folder(path: &Path) -> std::io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(folder)?.sync_all()
}

/// Opens the database. Only the file's owner may read it, because it holds jobs' secrets. With `create` a missing file
/// is created.
pub(super) fn open_file(path: &Path, create: bool) -> Result<Database, StoreError> {
    let file: File = OpenOptions::new()
        .read(true)
        .write(true)
        .create(create)
        .truncate(false)
        .mode(0o600)
        .open(path)
        .map_err(|error| explain(path, &error.into()))?;
    let mut builder = Builder::new();
    builder.set_cache_size(CACHE_BYTES).create_with_file_format_v3(true);
    builder.create_file(file).map_err(|error| match error {
        DatabaseError::Storage(StorageError::Io(error)) if error.kind() == ErrorKind::InvalidData => {
            wrong(path, "it is not the state of a coordinator".to_owned(), "name another file by --state")
        }
        other => explain(path, &other.into()),
    })
}
