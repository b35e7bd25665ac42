//! The coordinator's state file: the last value of each key, in an embedded database.
//!
//! [`Store`] opens the file and writes to it. It treats keys and values as opaque; the core defines them
//! ([`accord_cluster::Record`]).

mod error;
mod file;
mod format;
#[cfg(test)]
mod tests;
mod uptime;

pub use error::StoreError;

use accord_cluster::{Millis, Records, Restart};
use error::{DatabaseFailure, explain};
use file::{BOOT_KEY, EPOCH_KEY, META, NOW_KEY, RECORDS, UNIX_KEY, UPTIME_KEY, open_file, sync_folder};
use format::{CONVERSIONS, Conversion};
use redb::{Database, ReadableTable};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use uptime::Uptime;

/// Epochs are at least the number of these intervals since 2026. So a restored backup or a new file gets an epoch that
/// no earlier coordinator had.
const EPOCH_UNIT_MS: u64 = 1_000;
const EPOCHS_BEGAN_UNIX_MS: u64 = 1_767_225_600_000;

/// Changes of keys, each with its last value.
pub type Changes = BTreeMap<String, Option<Vec<u8>>>;

/// The open file.
pub struct Store {
    path: PathBuf,
    /// `None` after an error; the next commit opens the file again.
    database: Option<Database>,
    /// The epoch that this coordinator has written to the file.
    epoch: u64,
}

/// An open file and its contents.
pub struct Opened {
    /// The store for later changes.
    pub store: Store,
    /// All records.
    pub records: Records,
    /// The time and epoch with which this coordinator starts.
    pub restart: Restart,
}

impl Store {
    /// Opens or creates a file and increases its epoch. `unix_ms` is the wall clock.
    ///
    /// # Errors
    /// Returns why the file can't be used.
    pub fn open(path: &Path, unix_ms: u64) -> Result<Opened, StoreError> {
        Self::open_as(path, unix_ms, CONVERSIONS)
    }

    /// Opens a file of the format that these conversions lead to.
    fn open_as(path: &Path, unix_ms: u64, conversions: &[Conversion]) -> Result<Opened, StoreError> {
        let failed = |error: &DatabaseFailure| explain(path, error);
        let database = format::prepare(path, open_file(path, true)?, conversions)?;
        let uptime = Uptime::now();
        let (records, restart) = load(&database, unix_ms, uptime).map_err(|error| failed(&error))?;
        let mut store = Self { path: path.to_owned(), database: Some(database), epoch: restart.epoch };
        let epoch = [(EPOCH_KEY, restart.epoch)];
        store.write(&Changes::new(), restart.now, unix_ms, &epoch).map_err(|error| failed(&error))?;
        sync_folder(path).map_err(|error| failed(&error.into()))?;
        Ok(Opened { store, records, restart })
    }

    /// Returns the error of a file whose values contradict each other.
    #[must_use]
    pub fn damaged(&self, why: String) -> StoreError {
        error::wrong(&self.path, format!("it is damaged: {why}"), error::RESTORE)
    }

    /// Makes changes durable, all or none of them.
    ///
    /// # Errors
    /// Returns why the changes are not durable. The caller may retry them.
    pub fn commit(&mut self, changes: &Changes, now: Millis, unix_ms: u64) -> Result<(), StoreError> {
        if self.database.is_none() {
            self.database = Some(self.open_again()?);
        }
        self.write(changes, now, unix_ms, &[]).map_err(|error| {
            self.database = None;
            explain(&self.path, &error)
        })
    }

    /// Opens the file again after an error.
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

fn epoch_of(database: &Database) -> Result<u64, DatabaseFailure> {
    let transaction = database.begin_read()?;
    let meta = transaction.open_table(META)?;
    Ok(meta.get(EPOCH_KEY)?.map_or(0, |epoch| epoch.value()))
}

/// Reads all records, and the time and epoch to start with. The time since the last commit counts as passed.
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
        let last = Uptime { boot: of(BOOT_KEY)?, ms: of(UPTIME_KEY)? };
        let since = |earlier: u64, later: u64| later.saturating_sub(earlier);
        let passed = match of(UNIX_KEY)? {
            0 => 0,
            // Without a reboot the uptime is used, because the wall clock may have been set meanwhile.
            _ if last.boot == uptime.boot && uptime.boot != 0 => since(last.ms, uptime.ms),
            before => since(before, unix_ms),
        };
        let least = since(EPOCHS_BEGAN_UNIX_MS, unix_ms) / EPOCH_UNIT_MS;
        let epoch = (of(EPOCH_KEY)? + 1).max(least);
        Restart { now: Millis(of(NOW_KEY)?.saturating_add(passed)), unix_ms, epoch }
    };
    transaction.abort()?;
    Ok((loaded, restart))
}
