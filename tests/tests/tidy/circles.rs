//! No circles of modules inside of crates, but those that are named.

use crate::modules;
use accord_tests::{repository_file, root};
use std::path::Path;

const LIST: &str = "tests/data/import-circles.txt";

#[test]
fn modules_are_in_no_circles_but_those_listed() {
    let list = std::fs::read_to_string(repository_file(LIST)).unwrap();
    let lines: Vec<(&str, &str)> = list
        .lines()
        .filter(|line| !line.starts_with('#'))
        .map(|line| line.split_once(": ").expect("FOLDER: MODULES"))
        .collect();
    let (crates, mut wrong) = (crates(), Vec::new());
    for folder in &crates {
        let circles = modules::circles(folder);
        let allowed: Vec<&str> = lines.iter().filter(|(of, _)| of == folder).map(|(_, modules)| *modules).collect();
        match allowed[..] {
            [number] if number.parse::<usize>().is_ok() => {
                let found: usize = circles.iter().map(Vec::len).sum();
                if found > number.parse().unwrap() {
                    wrong.push(format!("{folder}: {found} modules are in circles, {number} may be: {circles:?}"));
                }
            }
            _ => compare(folder, &circles, &allowed, &mut wrong),
        }
    }
    wrong.extend(
        lines
            .iter()
            .filter(|(folder, _)| !crates.iter().any(|of| of == folder))
            .map(|(folder, _)| format!("no crate: {folder}")),
    );
    assert!(wrong.is_empty(), "{LIST}: {wrong:#?}");
}

/// Every circle is within one that is allowed, and what is in none any more is not listed.
fn compare(folder: &str, circles: &[Vec<String>], allowed: &[&str], wrong: &mut Vec<String>) {
    let mut listed: Vec<Vec<&str>> = allowed.iter().map(|modules| modules.split(", ").collect()).collect();
    for circle in circles {
        let within = listed.iter_mut().find(|list| circle.iter().all(|module| list.contains(&module.as_str())));
        match within {
            Some(list) => list.retain(|module| !circle.iter().any(|other| other == module)),
            None => wrong.push(format!("{folder}: a circle: {}", circle.join(", "))),
        }
    }
    let stale = listed.into_iter().flatten();
    wrong.extend(stale.map(|module| format!("{folder}: {module} is in no circle any more: take it off the list")));
}

/// Where the workspace's crates have their sources.
fn crates() -> Vec<String> {
    let metadata = crate::metadata(&["--no-deps"]).unwrap();
    let manifests =
        metadata["packages"].as_array().unwrap().iter().map(|package| package["manifest_path"].as_str().unwrap());
    manifests
        .map(|manifest| Path::new(manifest).parent().unwrap().join("src"))
        // Benches and tests may be as they like.
        .filter(|sources| {
            sources.is_dir() && !["tests", "benches", "fuzz"].iter().any(|top| sources.starts_with(root().join(top)))
        })
        .map(|sources| sources.strip_prefix(root()).unwrap().to_string_lossy().into_owned())
        .collect()
}
