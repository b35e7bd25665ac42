//! Dependencies satisfy deny.toml: licences, versions, sources, bans. `make deny` runs cargo-deny, which also knows
//! advisories; this needs only cargo.

use crate::metadata;
use crate::sources::text;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

struct Package {
    name: String,
    version: String,
    license: String,
    source: Option<String>,
}

/// Returns the packages that are compiled for this system, ours included.
fn packages() -> Vec<Package> {
    let metadata = metadata(&["--filter-platform", "x86_64-unknown-linux-gnu"]).unwrap();
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let package = |package: &Value| Package {
        name: text(&package["name"]).unwrap_or_default(),
        version: text(&package["version"]).unwrap_or_default(),
        license: text(&package["license"]).unwrap_or_default(),
        source: text(&package["source"]),
    };
    metadata["packages"].as_array().unwrap().iter().map(package).collect()
}

/// Returns the texts of a list in deny.toml.
fn listed(section: &str, key: &str) -> BTreeSet<String> {
    let file = text(Path::new("deny.toml"));
    let (_, rest) = file.split_once(&format!("[{section}]\n")).unwrap_or_else(|| panic!("no [{section}]"));
    let rest = rest.split("\n[").next().unwrap();
    let (_, rest) = rest.split_once(&format!("\n{key} = [")).unwrap_or_else(|| panic!("no {key} in [{section}]"));
    let list = rest.split(']').next().unwrap();
    let lines = list.lines().map(|line| line.split('#').next().unwrap_or_default());
    lines.flat_map(|line| line.split('"').skip(1).step_by(2)).map(str::to_owned).collect()
}

/// Whether the allowed licences satisfy a licence expression.
fn is_allowed(license: &str, allowed: &BTreeSet<String>) -> bool {
    let license = license.replace('/', " OR ");
    let license = license.trim();
    if let Some(inside) = license.strip_prefix('(')
        && let Some((inside, rest)) = inside.split_once(')')
    {
        let rest = rest.trim();
        return match (rest.strip_prefix("AND "), rest.strip_prefix("OR ")) {
            (Some(rest), _) => is_allowed(inside, allowed) && is_allowed(rest, allowed),
            (_, Some(rest)) => is_allowed(inside, allowed) || is_allowed(rest, allowed),
            _ => rest.is_empty() && is_allowed(inside, allowed),
        };
    }
    license.split(" OR ").any(|one| one.split(" AND ").all(|one| allowed.contains(one.trim())))
}

#[test]
fn licences_are_allowed() {
    let allowed = listed("licenses", "allow");
    for (license, met) in [
        ("MIT OR GPL-3.0", true),
        ("MIT/Apache-2.0", true),
        ("MIT AND GPL-3.0", false),
        ("(MIT OR GPL-3.0) AND Unicode-3.0", true),
        ("(MIT OR GPL-3.0) AND GPL-2.0", false),
        ("", false),
    ] {
        assert_eq!(is_allowed(license, &allowed), met, "{license}");
    }
    let wrong = packages().into_iter().filter(|package| !is_allowed(&package.license, &allowed));
    let wrong: Vec<_> =
        wrong.map(|package| format!("{} {}: {}", package.name, package.version, package.license)).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn there_is_one_version_of_each() {
    let skipped = listed("bans", "skip");
    let mut versions: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for package in packages() {
        if !skipped.contains(&format!("{}@{}", package.name, package.version)) {
            versions.entry(package.name).or_default().push(package.version);
        }
    }
    versions.retain(|_, versions| versions.len() > 1);
    assert!(versions.is_empty(), "several versions: {versions:#?}");
}

#[test]
fn all_come_from_the_registry_and_none_is_banned() {
    let (registries, banned) = (listed("sources", "allow-registry"), listed("bans", "deny"));
    let mut wrong = Vec::new();
    for package in packages() {
        let known = package.source.as_ref().is_none_or(|source| {
            source.strip_prefix("registry+").is_some_and(|registry| registries.contains(registry))
        });
        if !known || banned.contains(&package.name) {
            wrong.push(format!("{} from {:?}", package.name, package.source));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
