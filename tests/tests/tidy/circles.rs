//! The modules of a crate have no circular imports.

use crate::modules;
use accord_tests::root;
use std::path::Path;

#[test]
fn modules_are_in_no_circles() {
    let circles: Vec<String> = crates()
        .iter()
        .flat_map(|folder| {
            modules::circles(folder).into_iter().map(move |circle| format!("{folder}: {}", circle.join(", ")))
        })
        .collect();
    assert!(circles.is_empty(), "modules import each other: move what they share to where it belongs: {circles:#?}");
}

/// Returns the source folders of the workspace's crates.
fn crates() -> Vec<String> {
    let metadata = crate::metadata(&["--no-deps"]).unwrap();
    let manifests =
        metadata["packages"].as_array().unwrap().iter().map(|package| package["manifest_path"].as_str().unwrap());
    manifests
        .map(|manifest| Path::new(manifest).parent().unwrap().join("src"))
        // Benches and tests are exempt.
        .filter(|sources| {
            sources.is_dir() && !["tests", "benches", "fuzz"].iter().any(|top| sources.starts_with(root().join(top)))
        })
        .map(|sources| sources.strip_prefix(root()).unwrap().to_string_lossy().into_owned())
        .collect()
}
