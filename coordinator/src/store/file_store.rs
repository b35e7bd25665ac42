//! The coordinator's state file: an embedded database.

use super::clock::LastCommit;
use super::error::{self, DatabaseFailure, StoreError, explain};
use super::file::{BOOT_KEY, EPOCH_KEY, META, NOW_KEY, RECORDS, UNIX_KEY, UPTIME_KEY, open_file, sync_folder};
use super::format::{self, CONVERSIONS, Conversion};
use super::uptime::Uptime;
use super::{Changes, Opened, Store};
use accord_cluster::{Millis, Records, Restart};
use accord_types::threads::caught_quietly;
use redb::{Database, ReadableTable};
use std::path::{Path, PathBuf};

/// The open file.
pub struct FileStore {
    path: PathBuf,
    /// The open database; `None` after an error, so that the next access opens it again.
    pub(super) database: Option<Database>,
    /// The epoch that this coordinator has written to it.
    epoch: u64,
}

impl FileStore {
    /// Opens a file, or makes one. Its epoch goes up by one. `unix_ms` is the wall clock.
    ///
    /// # Errors
    /// Returns why the file can't be used.
    pub fn open(path: &Path, unix_ms: u64) -> Result<Opened<Self>, StoreError> {
        Self::open_as(path, unix_ms, CONVERSIONS)
    }

    /// The same, for a format with these conversions from earlier ones.
    pub(super) fn open_as(path: &Path, unix_ms: u64, conversions: &[Conversion]) -> Result<Opened<Self>, StoreError> {
        let failed = |error: &DatabaseFailure| explain(path, error);
        checked(path, || {
            let database = format::prepare(path, open_file(path, true)?, conversions)?;
            let uptime = Uptime::now();
            let (records, restart) = load(&database, unix_ms, uptime).map_err(|error| failed(&error))?;
            let mut store = Self { path: path.to_owned(), database: Some(database), epoch: restart.epoch };
            let epoch = [(EPOCH_KEY, restart.epoch)];
            store.write(&Changes::new(), restart.now, unix_ms, &epoch).map_err(|error| failed(&error))?;
            sync_folder(path).map_err(|error| failed(&error.into()))?;
            Ok(Opened { store, records, restart })
        })
    }

    /// Opens the file after an error.
    fn open_again(&self) -> Result<Database, StoreError> {
        let database = open_file(&self.path, false)?;
        let epoch = epoch_of(&database).map_err(|error| explain(&self.path, &error))?;
        if epoch != self.epoch {
            let cause = "it is another file than before, or another coordinator has written it".to_owned();
            return Err(error::wrong(&self.path, cause, "start this coordinator again"));
        }
        Ok(database)
    }

    fn write(
        &mut self,
        changes: &Changes,
        now: Millis,
        unix_ms: u64,
        more: &[(&str, u64)],
    ) -> Result<(), DatabaseFailure> {
        let Some(database) = &self.database else { return Ok(()) };
        let transaction = database.begin_write()?;
        {
            let mut records = transaction.open_table(RECORDS)?;
            for (key, value) in changes {
                match value {
                    Some(value) => drop(records.insert(key.as_str(), value.as_slice())?),
                    None => drop(records.remove(key.as_str())?),
                }
            }
            let mut meta = transaction.open_table(META)?;
            let Uptime { boot, ms } = Uptime::now();
            let clock = [(NOW_KEY, now.0), (UNIX_KEY, unix_ms), (BOOT_KEY, boot), (UPTIME_KEY, ms)];
            for (key, value) in clock.iter().chain(more) {
                meta.insert(*key, *value)?;
            }
        }
        transaction.commit()?;
        Ok(())
    }
}

impl Store for FileStore {
    fn commit(&mut self, changes: &Changes, now: Millis, unix_ms: u64) -> Result<(), StoreError> {
        let path = self.path.clone();
        let written = checked(&path, || {
            if self.database.is_none() {
                self.database = Some(self.open_again()?);
            }
            self.write(changes, now, unix_ms, &[]).map_err(|error| explain(&path, &error))
        });
        if written.is_err() {
            // Its end may find the same damage.
            let database = self.database.take();
            let _ = caught_quietly(|| drop(database));
        }
        written
    }

    fn damaged(&self, why: String) -> StoreError {
        error::wrong(&self.path, format!("it is damaged: {why}"), error::RESTORE)
    }
}

/// Uses the database of a file. It asserts what a damaged file contradicts: such a panic means that the file is damaged.
fn checked<T>(path: &Path, work: impl FnOnce() -> Result<T, StoreError>) -> Result<T, StoreError> {
    caught_quietly(work).unwrap_or_else(|_| Err(error::wrong(path, "it is damaged".to_owned(), error::RESTORE)))
}

fn epoch_of(database: &Database) -> Result<u64, DatabaseFailure> {
    let transaction = database.begin_read()?;
    let meta = transaction.open_table(META)?;
    Ok(meta.get(EPOCH_KEY)?.map_or(0, |epoch| epoch.value()))
}

/// Reads all values, and how the coordinator goes on: the time since the last commit has passed.
fn load(database: &Database, unix_ms: u64, uptime: Uptime) -> Result<(Records, Restart), DatabaseFailure> {
    let transaction = database.begin_write()?;
    let mut loaded = Records::new();
    let restart = {
        let records = transaction.open_table(RECORDS)?;
        for entry in records.iter()? {
            let (key, value) = entry?;
            loaded.insert(key.value().to_owned(), value.value().to_vec());
        }
        let meta = transaction.open_table(META)?;
        let of = |key: &str| Ok::<_, DatabaseFailure>(meta.get(key)?.map_or(0, |value| value.value()));
        let uptime_then = Uptime { boot: of(BOOT_KEY)?, ms: of(UPTIME_KEY)? };
        let last = LastCommit { epoch: of(EPOCH_KEY)?, now: of(NOW_KEY)?, unix_ms: of(UNIX_KEY)?, uptime: uptime_then };
        last.restart(unix_ms, uptime)
    };
    transaction.abort()?;
    Ok((loaded, restart))
}
