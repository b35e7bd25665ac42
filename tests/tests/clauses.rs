//! Docstrings of OpenACC's routines name the clause of the specification that describes them (OpenACC 3.3, 3.2).

use accord_tests::repository_file;
use regex_lite::Regex;
use std::collections::BTreeMap;

/// The routines of each clause 3.2.N, under all their names.
const CLAUSES: &[(u32, &[&str])] = &[
    (1, &["get_num_devices"]),
    (2, &["set_device_type"]),
    (3, &["get_device_type"]),
    (4, &["set_device_num"]),
    (5, &["get_device_num"]),
    (6, &["get_property", "get_property_string"]),
    (7, &["init", "init_device"]),
    (8, &["shutdown", "shutdown_device"]),
    (9, &["async_test", "async_test_device", "async_test_all", "async_test_all_device"]),
    (10, &["wait", "wait_device", "wait_all", "wait_all_device", "async_wait", "async_wait_all"]),
    (11, &["wait_async", "wait_device_async", "wait_all_async", "wait_all_device_async"]),
    (12, &["wait_any", "wait_any_device"]),
    (13, &["get_default_async"]),
    (14, &["set_default_async"]),
    (15, &["on_device"]),
    (16, &["malloc"]),
    (17, &["free"]),
    (18, &["copyin", "copyin_async", "present_or_copyin", "pcopyin"]),
    (18, &["create", "create_async", "present_or_create", "pcreate"]),
    (19, &["copyout", "copyout_async", "copyout_finalize", "copyout_finalize_async"]),
    (19, &["delete", "delete_async", "delete_finalize", "delete_finalize_async"]),
    (20, &["update_device", "update_device_async", "update_self", "update_self_async"]),
    (21, &["map_data"]),
    (22, &["unmap_data"]),
    (23, &["deviceptr"]),
    (24, &["hostptr"]),
    (25, &["is_present"]),
    (26, &["memcpy_to_device", "memcpy_to_device_async"]),
    (27, &["memcpy_from_device", "memcpy_from_device_async"]),
    (28, &["memcpy_device", "memcpy_device_async"]),
    (29, &["attach", "attach_async", "detach", "detach_async", "detach_finalize", "detach_finalize_async"]),
    (30, &["memcpy_d2d", "memcpy_d2d_async"]),
];

fn clauses() -> BTreeMap<&'static str, u32> {
    CLAUSES.iter().flat_map(|(clause, names)| names.iter().map(move |name| (*name, *clause))).collect()
}

fn files(folder: &str) -> Vec<(String, String)> {
    let entries = std::fs::read_dir(repository_file(folder)).unwrap();
    let mut files: Vec<_> = entries
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "rs"))
        .map(|path| (path.display().to_string(), std::fs::read_to_string(&path).unwrap()))
        .collect();
    files.sort();
    files
}

/// The C functions: the clause in a docstring is the clause of the function below it.
#[test]
fn functions_name_their_clause() {
    let (clauses, mut wrong, mut named) = (clauses(), Vec::new(), 0);
    let function = Regex::new(r"\bfn acc_(\w+)\(").unwrap();
    let clause = Regex::new(r"\(3\.2\.(\d+)\)").unwrap();
    let outside = ["prof_", "callback_", "register_library", "get_current_cuda", "get_cuda", "set_cuda"];
    for (path, text) in files("libacc/src/api") {
        let mut doc = String::new();
        for line in text.lines().map(str::trim) {
            if let Some(more) = line.strip_prefix("///") {
                doc.push_str(more);
            } else if let Some(found) = function.captures(line) {
                let name = &found[1];
                match clauses.get(name) {
                    Some(right) => {
                        for said in clause.captures_iter(&doc) {
                            named += 1;
                            if said[1].parse() != Ok(*right) {
                                wrong.push(format!("{path}: acc_{name} is 3.2.{right}, not 3.2.{}", &said[1]));
                            }
                        }
                    }
                    None if outside.iter().any(|prefix| name.starts_with(prefix)) => {}
                    None => wrong.push(format!("{path}: acc_{name} has no clause in this test's table")),
                }
                doc.clear();
            } else if !line.starts_with("#[") {
                doc.clear();
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(named > 30, "only {named} clauses are named");
}

/// The runtime's methods: a clause follows the routine that it describes.
#[test]
fn the_runtime_names_the_same_clauses() {
    let (clauses, mut wrong, mut named) = (clauses(), Vec::new(), 0);
    let said = Regex::new(r"`acc_(\w+)`[^`\n]*\(3\.2\.(\d+)\)").unwrap();
    for (path, text) in files("libacc/runtime/src/routine") {
        for found in said.captures_iter(&text) {
            named += 1;
            if clauses.get(&found[1]).copied() != found[2].parse().ok() {
                wrong.push(format!("{path}: acc_{} is not 3.2.{}", &found[1], &found[2]));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(named > 25, "only {named} clauses are named");
}

/// Every routine of the table is there.
#[test]
fn every_routine_is_defined() {
    let api: String = files("libacc/src/api").into_iter().map(|(_, text)| text).collect();
    let missing: Vec<_> = clauses().into_keys().filter(|name| !api.contains(&format!("fn acc_{name}("))).collect();
    assert!(missing.is_empty(), "{missing:?}");
}
