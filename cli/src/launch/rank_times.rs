//! `accord run --time` for several ranks: each rank writes a report into the run's folder, and the run prints the sum.

use crate::args::RunArgs;
use crate::failure::{Failure, Result};
use crate::output::report_line;
use accord_telemetry::times::{Summary, Times};
use accord_types::settings;
use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};

/// The reports of a run's ranks.
pub(crate) struct RankTimes<'a> {
    args: &'a RunArgs,
    folder: PathBuf,
}

impl<'a> RankTimes<'a> {
    /// Creates the folder for the reports in `dir`, if the run is asked for their sum.
    ///
    /// # Errors
    /// Returns an error if the folder can't be created.
    pub(crate) fn begin(args: &'a RunArgs, dir: &Path) -> Result<Option<Self>> {
        if !args.adds_up_times() {
            return Ok(None);
        }
        let folder = dir.join("times");
        std::fs::create_dir(&folder)
            .map_err(|error| Failure::system(format!("can't make the folder {}", folder.display()), error))?;
        Ok(Some(Self { args, folder }))
    }

    /// Returns the setting that makes ranks write their reports here.
    pub(crate) fn setting(&self) -> (&'static str, OsString) {
        (settings::TIME.name, self.folder.join("%r.%p.json").into())
    }

    /// Prints the sum of the existing reports, also those of killed ranks.
    ///
    /// # Errors
    /// Returns an error if the reports can't be read, or the sum can't be written.
    pub(crate) fn show(&self) -> Result<()> {
        let reports = self.read()?;
        if reports.is_empty() {
            report_line(format_args!("no times were reported: no rank has called OpenACC"));
            return Ok(());
        }
        let summary = Summary::of(&reports);
        let to = self.args.time.as_deref().unwrap_or_default();
        let is_json_name = |file: &Path| file.extension().is_some_and(|extension| extension == "json");
        let named = Some(to).filter(|to| !matches!(*to, "" | "full"));
        let file = named.map(|named| match self.args.json && !is_json_name(Path::new(named)) {
            true => PathBuf::from(format!("{named}.json")),
            false => PathBuf::from(named),
        });
        let text = if self.args.json || file.as_deref().is_some_and(is_json_name) {
            summary.json(&reports)
        } else if file.is_some() || to == "full" {
            summary.text() + &reports.iter().map(Times::details).collect::<String>()
        } else {
            summary.text()
        };
        match file {
            Some(file) => std::fs::write(&file, text)
                .map_err(|error| Failure::system(format!("can't write {}", file.display()), error)),
            None => {
                // Without standard error the times are dropped.
                let _ = std::io::stderr().write_all(text.as_bytes());
                Ok(())
            }
        }
    }

    /// Reads the reports, in the order of the ranks.
    fn read(&self) -> Result<Vec<Times>> {
        let failed =
            |path: &Path, error: std::io::Error| Failure::system(format!("can't read {}", path.display()), error);
        let mut reports = Vec::new();
        for entry in std::fs::read_dir(&self.folder).map_err(|error| failed(&self.folder, error))? {
            let path = entry.map_err(|error| failed(&self.folder, error))?.path();
            // A rank that was killed while writing leaves a partial file next to its previous report.
            if path.extension().is_some_and(|extension| extension == "json") {
                let text = std::fs::read_to_string(&path).map_err(|error| failed(&path, error))?;
                match Times::from_json(&text) {
                    Ok(times) => reports.push(times),
                    Err(why) => report_line(format_args!("the times in {} are left out: {why}", path.display())),
                }
            }
        }
        reports.sort_by_key(|times| times.rank);
        Ok(reports)
    }
}
