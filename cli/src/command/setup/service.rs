//! The services of a setup: units of systemd.

use super::steps::{Steps, note};
use crate::failure::{Failure, Result};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A folder that exists where systemd manages the machine.
const SYSTEMD: &str = "/run/systemd/system";

/// Enables and starts a service, or restarts it after its settings have changed.
pub(super) fn start(steps: &mut Steps, name: &str, settings_changed: bool, settings: &Path) -> Result<()> {
    if !Path::new(SYSTEMD).is_dir() {
        let program =
            crate::launch::find_program(name).map_or_else(|_| name.to_owned(), |path| path.display().to_string());
        note(format!(
            "no systemd runs here: start {program} with the settings of {} and of {name}.service (install/systemd)",
            settings.display()
        ));
        return Ok(());
    }
    let is = |question: &str| systemctl(&[question, "--quiet", name]).is_ok();
    let (is_enabled, is_active) = (is("is-enabled"), is("is-active"));
    let what =
        format!("service {name}: enabled, {}", if is_active && settings_changed { "restarted" } else { "started" });
    let is_done = is_enabled && is_active && !settings_changed;
    steps.step(what, is_done, || {
        let unit = unit(name)?;
        systemctl(&["enable", &unit])?;
        systemctl(&[if is_active { "restart" } else { "start" }, name])
    })?;
    Ok(())
}

/// Returns the name of a unit that systemd knows, or else the unit file next to this program.
fn unit(name: &str) -> Result<String> {
    if systemctl(&["cat", name]).is_ok() {
        return Ok(format!("{name}.service"));
    }
    let beside =
        |program: PathBuf| Some(program.parent()?.parent()?.join(format!("lib/systemd/system/{name}.service")));
    let file = std::env::current_exe().ok().and_then(beside).filter(|file| file.is_file());
    file.map(|file| file.display().to_string()).ok_or_else(|| {
        Failure::new(format!("there is no unit {name}.service; install Accord with its package, or with make install"))
    })
}

fn systemctl(arguments: &[&str]) -> Result<()> {
    let failed = |why: String| Failure::new(format!("systemctl {}: {why}", arguments.join(" ")));
    let output = Command::new("systemctl").args(arguments).stdin(Stdio::null()).output();
    let output = output.map_err(|error| failed(error.to_string()))?;
    if output.status.success() {
        return Ok(());
    }
    let printed = String::from_utf8_lossy(&output.stderr);
    Err(failed(format!("{}; journalctl -u {} says more", printed.trim(), arguments.last().unwrap_or(&""))))
}
