//! Completions and manual pages, generated from the command line's definition.
#![forbid(unsafe_code)]

use std::process::{Command, Output};

fn accord(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_accord")).args(arguments).output().unwrap()
}

#[test]
fn the_shell_takes_its_completions() {
    let script = accord(&["completions", "bash"]);
    assert!(script.status.success(), "{script:?}");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("accord");
    std::fs::write(&file, &script.stdout).unwrap();
    // The shell's suggestions after these words.
    let offered = |words: &str| {
        let asked = format!(
            "source {}; COMP_WORDS=({words}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); \
             _accord accord \"${{COMP_WORDS[-1]}}\" \"${{COMP_WORDS[-2]}}\"; echo \"${{COMPREPLY[@]}}\"",
            file.display()
        );
        let shell = Command::new("bash").args(["-c", &asked]).output().unwrap();
        assert!(shell.status.success(), "{shell:?}");
        String::from_utf8(shell.stdout).unwrap()
    };
    assert_eq!(offered("accord que").trim(), "queue");
    assert!(offered("accord run --dev").contains("--devices"));
    let hidden = offered("accord _");
    assert!(!hidden.contains("__"), "{hidden}");
    let unknown = accord(&["completions", "cobol"]);
    assert_eq!(unknown.status.code(), Some(2), "{unknown:?}");
}

#[test]
fn each_command_that_is_shown_has_a_manual_page() {
    let folder = tempfile::tempdir().unwrap();
    let pages = folder.path().join("man");
    let made = accord(&["man", pages.to_str().unwrap()]);
    assert!(made.status.success(), "{made:?}");
    let names: Vec<String> =
        std::fs::read_dir(&pages).unwrap().map(|page| page.unwrap().file_name().into_string().unwrap()).collect();
    for name in ["accord.1", "accord-run.1", "accord-policy-check.1", "accord-explain-job.1"] {
        assert!(names.iter().any(|page| page == name), "{name} in {names:?}");
    }
    assert!(names.iter().all(|page| !page.contains("__")), "{names:?}");
    let run = std::fs::read_to_string(pages.join("accord-run.1")).unwrap();
    assert!(run.contains(r"\-\-devices"), "{run}");
}

#[test]
fn a_folder_that_cannot_be_made_is_named() {
    let made = accord(&["man", "/proc/none"]);
    assert_eq!(made.status.code(), Some(125), "{made:?}");
    let message = String::from_utf8(made.stderr).unwrap();
    assert!(message.contains("can't write manual pages into /proc/none"), "{message}");
}

#[test]
fn the_version_is_shown_with_commit_and_protocols() {
    let run = |args: &[&str]| {
        let output =
            Command::new(env!("CARGO_BIN_EXE_accord")).args(args).env("ACCORD_CC", "/no/compiler").output().unwrap();
        assert!(output.status.success(), "{args:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let version = env!("CARGO_PKG_VERSION");
    let line = run(&["--version"]);
    assert!(line.starts_with(&format!("accord {version} (commit ")), "{line}");
    let text = run(&["version"]);
    assert!(text.starts_with(&format!("accord {version}\ncommit ")) && text.contains("no /no/compiler here"), "{text}");
    let json: serde_json::Value = serde_json::from_str(&run(&["version", "--json"])).unwrap();
    assert_eq!((&json["version"], &json["gcc"]["found"]), (&version.into(), &serde_json::Value::Null), "{json:#}");
    assert!(json["protocols"]["control"].is_u64() && json["protocols"]["session"].is_u64(), "{json:#}");
}
