//! Detection of variables that look like settings but are not.

use crate::nearest::nearest;
use crate::settings::ALL;
use std::ffi::OsString;

/// Prefix of all settings of Accord's own.
const PREFIX: &str = "ACCORD_";

/// Prefixes of names that are no settings: of Accord's internal variables, its tests, environment modules, a site's scripts,
/// and Kubernetes' variables for the chart's service.
pub const NO_SETTINGS: &[&str] = &[
    "ACCORD_TEST",
    "ACCORD_INTERNAL",
    "ACCORD_WORKER",
    "ACCORD_EXECUTOR",
    "ACCORD_BENCH",
    "ACCORD_SIM",
    "ACCORD_HOME",
    "ACCORD_BIN",
    "ACCORD_COMMIT",
    "ACCORD_JOB_",
    "ACCORD_COORDINATOR_SERVICE_",
    "ACCORD_COORDINATOR_PORT",
];

/// Returns a sentence for each variable with the prefix of Accord's settings that is no setting.
pub fn unknown_settings(variables: impl IntoIterator<Item = OsString>) -> Vec<String> {
    let known = || ALL.iter().flat_map(|setting| std::iter::once(&setting.name).chain(setting.aliases)).copied();
    let is_unknown = |name: &String| {
        name.starts_with(PREFIX)
            && !NO_SETTINGS.iter().any(|prefix| name.starts_with(prefix))
            && !known().any(|known| known == name)
    };
    let names = variables.into_iter().filter_map(|name| name.into_string().ok());
    let mut unknown: Vec<String> = names.filter(is_unknown).collect();
    unknown.sort_unstable();
    let reported = unknown.into_iter().map(|name| match nearest(&name, known()) {
        Some(near) => format!("{name} is no setting: did you mean {near}?"),
        None => format!("{name} is no setting; accord info --settings lists them all"),
    });
    reported.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_setting_is_reported_with_the_nearest_name() {
        let names = ["ACCORD_TIEM", "PATH", "ACCORD_TIMEOUT", "ACCORD_TEST_SEED", "ACCORD_XYZZY_OF_OURS", "ACC_NUM"];
        let reported = unknown_settings(names.map(OsString::from));
        let nothing_near = "ACCORD_XYZZY_OF_OURS is no setting; accord info --settings lists them all";
        assert_eq!(reported, ["ACCORD_TIEM is no setting: did you mean ACCORD_TIME?", nothing_near]);
        assert_eq!(unknown_settings(ALL.iter().map(|setting| setting.name.into())), [""; 0]);
    }
}
