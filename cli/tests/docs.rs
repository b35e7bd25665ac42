//! Tests that settings and help texts in the reference pages are those of the programs. ACCORD_UPDATE_DOCS=1 rewrites
//! the pages instead.
#![forbid(unsafe_code)]

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

#[test]
fn help_texts_are_the_programs_own() {
    let page = std::fs::read_to_string(reference("cli.md")).unwrap();
    let mut fresh = String::new();
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        fresh.push_str(line);
        fresh.push('\n');
        let Some(command) = line.strip_prefix("$ ") else { continue };
        let displayed: String =
            lines.by_ref().take_while(|&line| line != "```").map(|line| format!("{line}\n")).collect();
        fresh.push_str(&help(command).unwrap_or(displayed));
        fresh.push_str("```\n");
    }
    compare("cli.md", &page, &fresh);
}

#[test]
fn the_page_of_settings_is_the_table() {
    let mut fresh = String::from(
        "# Environment variables\n\n\
         Every setting, from the table in `crates/types/src/settings.rs` (a test keeps this page true).\n\
         `accord info --settings` prints the values in force. An empty value, or one of blanks, counts as not set. Where\n\
         other names are given, the first one that is set counts. A variable that begins with `ACCORD_` and is none of these is reported on standard error, with the\n\
         nearest name: by the program at its first use of a device (in an MPI job by rank 0), by the services at their start, and by `accord info --settings`.\n\n\
         | setting | value | default | what it does | other names |\n\
         | --- | --- | --- | --- | --- |\n",
    );
    for setting in settings().as_array().unwrap() {
        let text = |key: &str| setting[key].as_str().unwrap().replace('|', " or ");
        let code = |text: &str| if text.is_empty() { String::new() } else { format!("`{text}`") };
        let default = text("default");
        let default = if default.starts_with('(') { default } else { code(&default) };
        let aliases: Vec<String> =
            setting["aliases"].as_array().unwrap().iter().map(|name| code(name.as_str().unwrap())).collect();
        fresh.push_str(&format!(
            "| `{}` | {} | {default} | {} | {} |\n",
            text("name"),
            text("unit"),
            text("help"),
            aliases.join(" ")
        ));
    }
    let page = std::fs::read_to_string(reference("env.md")).unwrap_or_default();
    // The sections after the table are written by hand.
    fresh.push_str(page.find("\n## ").map_or("", |at| &page[at..]));
    compare("env.md", &page, &fresh);
}

fn compare(name: &str, page: &str, fresh: &str) {
    if page == fresh {
        return;
    }
    if std::env::var_os("ACCORD_UPDATE_DOCS").is_some() {
        std::fs::write(reference(name), fresh).unwrap();
        return;
    }
    panic!(
        "docs/reference/{name} is out of date; run ACCORD_UPDATE_DOCS=1 cargo test -p accord --test docs\n\
         and look at what changed"
    );
}

/// Returns a program's output for `command`; `None` if it isn't built.
fn help(command: &str) -> Option<String> {
    let mut words = command.split(' ');
    let name = words.next().unwrap();
    let program = Path::new(env!("CARGO_BIN_EXE_accord")).with_file_name(name);
    if !program.is_file() {
        println!("skipped: {name} is not built");
        return None;
    }
    let output = Command::new(program)
        .args(words)
        // Print defaults, not this machine's values.
        .env_clear()
        .output()
        .unwrap();
    assert!(output.status.success(), "{command}: {output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    Some(text.lines().map(|line| format!("{}\n", line.trim_end())).collect())
}

fn settings() -> Value {
    let output = Command::new(env!("CARGO_BIN_EXE_accord")).args(["info", "--settings", "--json"]).output().unwrap();
    serde_json::from_slice(&output.stdout).unwrap()
}

fn reference(name: &str) -> PathBuf {
    root().join("docs/reference").join(name)
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}
