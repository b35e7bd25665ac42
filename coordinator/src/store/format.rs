//! The format of the state file, and conversions from earlier formats.

use super::error::{DatabaseFailure, StoreError, explain, wrong};
use super::file::{FORMAT_KEY, META, open_file, sync_folder};
use redb::{Database, ReadableTable, WriteTransaction};
use std::ffi::OsString;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

/// Converts a format to the next one.
pub(super) type Conversion = fn(&WriteTransaction) -> Result<(), DatabaseFailure>;

/// The conversions, in order; the first one converts format 1 to format 2. The current format follows the last
/// conversion.
pub(super) const CONVERSIONS: &[Conversion] = &[];

/// Returns the database in the current format. A file in an earlier format is copied before it is converted.
pub(super) fn prepare(path: &Path, database: Database, conversions: &[Conversion]) -> Result<Database, StoreError> {
    let failed = |error: DatabaseFailure| explain(path, &error);
    let today = u64::try_from(conversions.len()).unwrap_or(u64::MAX).saturating_add(1);
    let format = format_of(&database, today).map_err(failed)?;
    if format > today {
        let cause = format!("a newer release has written it (format {format}, and this one knows up to {today})");
        let remedy =
            format!("start that release, or put the backup {} in its place", backup_path(path, today).display());
        return Err(wrong(path, cause, &remedy));
    }
    if format == today {
        return Ok(database);
    }
    // Closing the database completes the file.
    drop(database);
    let backup = backup_path(path, format);
    copy(path, &backup).map_err(|error| {
        let cause = format!("its backup {} can't be written: {error}", backup.display());
        wrong(path, cause, "make room on its disk")
    })?;
    let database = open_file(path, false)?;
    convert(&database, format, conversions).map_err(failed)?;
    tracing::warn!(
        "the state file {} is converted to format {today}; the earlier one is {}",
        path.display(),
        backup.display()
    );
    Ok(database)
}

/// Returns a file's format. A new file gets the current one.
fn format_of(database: &Database, today: u64) -> Result<u64, DatabaseFailure> {
    let transaction = database.begin_write()?;
    let format = {
        let mut meta = transaction.open_table(META)?;
        let known = meta.get(FORMAT_KEY)?.map(|format| format.value());
        match known {
            Some(format) => format,
            None => {
                meta.insert(FORMAT_KEY, today)?;
                today
            }
        }
    };
    transaction.commit()?;
    Ok(format)
}

fn convert(database: &Database, format: u64, conversions: &[Conversion]) -> Result<(), DatabaseFailure> {
    let transaction = database.begin_write()?;
    let done = usize::try_from(format.saturating_sub(1)).unwrap_or(usize::MAX);
    for conversion in conversions.iter().skip(done) {
        conversion(&transaction)?;
    }
    let today = u64::try_from(conversions.len()).unwrap_or(u64::MAX).saturating_add(1);
    transaction.open_table(META)?.insert(FORMAT_KEY, today)?;
    transaction.commit()?;
    Ok(())
}

fn copy(from: &Path, to: &Path) -> std::io::Result<()> {
    fs::copy(from, to)?;
    File::open(to)?.sync_all()?;
    sync_folder(to)
}

/// Returns the path of the backup that is kept when a format is converted.
pub(super) fn backup_path(path: &Path, format: u64) -> PathBuf {
    let mut name: OsString = path.as_os_str().to_owned();
    name.push(format!(".format-{format}"));
    name.into()
}
