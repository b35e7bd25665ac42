//! docs/reference/conformance.md: the results of each routine. `make conformance` runs the programs and writes the
//! page. These tests check that it has every routine, and a result wherever a program calls one.

use accord_tests::coverage::{Kind, Record, Routine, called, cell, gpu_record, is_covered, record, routines};
use accord_tests::{Language, Program, programs, root};
use std::collections::BTreeSet;
use std::fmt::Write;

const LANGUAGES: [(Language, &str); 3] = [(Language::C, "C"), (Language::Cxx, "C++"), (Language::Fortran, "Fortran")];

const HEAD: &str = "# Conformance\n\n\
    Every routine of OpenACC 3.3 (chapter 3, A.2.1 and 5.3), by language and kind of device, as `make conformance` found it: it runs\n\
    the conformance programs (`tests/programs`) and writes this page. `passes`: every program of that language that calls the\n\
    routine passed, in all the variants that were run. `-`: no program of that language calls it, or no kept result says. GPUs: by the results of `gpu-check` in\n\
    `benches/results`. In-process is a device of the program's own node, remote one of another.\n\n";

fn all() -> (Vec<Routine>, Vec<(Program, BTreeSet<String>)>) {
    let programs = programs().unwrap();
    let programs = programs.into_iter().map(|program| (program.clone(), called(&program).unwrap())).collect();
    (routines().unwrap(), programs)
}

/// Returns the cells of each routine on the page.
fn rows(page: &str) -> Vec<Vec<&str>> {
    let rows = page.lines().filter(|line| line.starts_with("| `"));
    rows.map(|line| line.trim_matches('|').split('|').map(str::trim).collect()).collect()
}

/// Returns the page. `known` has the cells for CPU devices, if the record has none of them.
fn page(record: &Record, known: Option<&str>) -> String {
    let known = known.map(rows);
    let (routines, programs) = all();
    let mut text = String::from(HEAD);
    let kinds = ["CPU in-process", "CPU remote", "GPU in-process", "GPU remote"];
    text.push_str("| routine |");
    for (_, language) in LANGUAGES {
        for kind in kinds {
            let _ = write!(text, " {language}, {kind} |");
        }
    }
    text.push_str("\n| --- |");
    text.push_str(&" --- |".repeat(LANGUAGES.len() * kinds.len()));
    text.push('\n');
    for routine in &routines {
        let _ = write!(text, "| `{}` |", routine.name);
        let row = known.iter().flatten().find(|row| row[0].trim_matches('`') == routine.name);
        for (at, (language, _)) in LANGUAGES.into_iter().enumerate() {
            for kind in Kind::ALL {
                let cell = match (known.is_some(), kind) {
                    (true, Kind::CpuLocal | Kind::CpuRemote) => {
                        row.map_or("-", |row| row[1 + at * Kind::ALL.len() + kind as usize]).to_owned()
                    }
                    _ => cell(routine, language, kind, &programs, record),
                };
                let _ = write!(text, " {cell} |");
            }
        }
        text.push('\n');
    }
    text
}

const PAGE: &str = "docs/reference/conformance.md";

/// Writes the page from the record of a run; `make conformance` requests that. `scripts/conformance --gpu` makes it
/// write the GPUs' columns only, from the kept results of gpu-check.
#[test]
fn write_what_a_run_has_shown() {
    let path = root().join(PAGE);
    let text = match std::env::var("ACCORD_UPDATE_DOCS").as_deref() {
        Ok("gpu") => page(&gpu_record().unwrap(), Some(&std::fs::read_to_string(&path).unwrap())),
        Ok(_) => {
            let folder = std::env::var_os("ACCORD_TEST_RECORD").expect("the folder of a run's record");
            let mut all = record(folder.as_ref()).unwrap();
            assert!(!all.is_empty(), "nothing was run");
            all.extend(gpu_record().unwrap());
            page(&all, None)
        }
        Err(_) => {
            println!("skipped: make conformance writes the page");
            return;
        }
    };
    std::fs::write(path, text).unwrap();
}

/// The cells of CPU devices stay, and GPUs' cells come from the record.
#[test]
fn the_columns_of_gpus_are_written_alone() {
    let old = std::fs::read_to_string(root().join(PAGE)).unwrap();
    let nothing = page(&Record::new(), Some(&old));
    for (before, after) in rows(&old).iter().zip(rows(&nothing)) {
        for language in 0..LANGUAGES.len() {
            let at = 1 + language * Kind::ALL.len();
            assert_eq!(before[at..at + 2], after[at..at + 2], "{}", after[0]);
            assert!(["-", "not in Fortran"].contains(&after[at + 2]), "{after:?}");
        }
    }
    let kept = gpu_record().unwrap();
    let [passed, failed] = [true, false].map(|wanted| kept.values().filter(|passed| **passed == wanted).count());
    assert!(passed > 300 && failed < 10, "{passed} passed and {failed} failed by the kept results");
    assert_eq!(rows(&page(&kept, Some(&old))), rows(&old), "run scripts/conformance --gpu");
}

/// Each routine has a row, and each cell for CPU devices has a result if a program calls the routine.
#[test]
fn the_table_is_fresh() {
    let page = std::fs::read_to_string(root().join(PAGE)).unwrap();
    let (routines, programs) = all();
    let rows = rows(&page);
    let named: Vec<String> = rows.iter().map(|row| row[0].trim_matches('`').to_owned()).collect();
    let wanted: Vec<String> = routines.iter().map(|routine| routine.name.clone()).collect();
    assert_eq!(named, wanted, "the page has other routines than the headers; run make conformance");
    let mut stale = Vec::new();
    for (routine, row) in routines.iter().zip(&rows) {
        for (at, (language, name)) in LANGUAGES.iter().enumerate() {
            for kind in [Kind::CpuLocal, Kind::CpuRemote] {
                let cell = row[1 + at * Kind::ALL.len() + kind as usize];
                let calls = |program: &str| {
                    programs.iter().any(|(known, called)| {
                        known.name == program && known.language == *language && called.contains(&routine.name)
                    })
                };
                let none = *language == Language::Fortran && !routine.fortran;
                let right = match (none, is_covered(routine, *language, &programs)) {
                    (true, _) => cell == "not in Fortran",
                    // A failed program is named, if it still exists and calls the routine.
                    (false, true) => cell == "passes" || cell.strip_prefix("fails: ").is_some_and(calls),
                    (false, false) => cell == "-",
                };
                if !right {
                    stale.push(format!("{} in {name} ({kind:?}): {cell}", routine.name));
                }
            }
        }
    }
    assert!(stale.is_empty(), "run make conformance, and mend what fails: {stale:#?}");
}

/// Each routine has a program in C, and in Fortran if it has an interface.
#[test]
fn every_routine_has_programs() {
    let (routines, programs) = all();
    // A tool's entry point and queries: called by the library or by profiling libraries.
    let by_tools = ["acc_register_library"];
    let mut missing = Vec::new();
    for routine in routines.iter().filter(|routine| !by_tools.contains(&routine.name.as_str())) {
        for (language, name) in LANGUAGES.into_iter().filter(|(language, _)| *language != Language::Cxx) {
            if (language != Language::Fortran || routine.fortran) && !is_covered(routine, language, &programs) {
                missing.push(format!("{} in {name}", routine.name));
            }
        }
    }
    assert!(missing.is_empty(), "no program calls {missing:#?}");
    assert!(routines.len() >= 81, "only {} routines were found", routines.len());
}
