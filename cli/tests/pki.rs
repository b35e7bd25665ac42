//! `accord pki`: its output, and its refusals.
#![forbid(unsafe_code)]

use accord_trust::{Identity, Role};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

/// Returns exit code and all output.
fn pki(folder: &Path, line: &str) -> (Option<i32>, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_accord"))
        .arg("pki")
        .args(line.split(' '))
        .current_dir(folder)
        .output()
        .unwrap();
    let printed = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap()).concat();
    (output.status.code(), printed)
}

#[test]
fn an_authority_issues_and_renews() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let (code, printed) = pki(folder, "init ca --cluster physics");
    assert!(code == Some(0) && printed.contains("physics") && printed.contains("keep ca.key to yourself"), "{printed}");
    for (line, role) in [
        ("issue ca coordinator --out c", Role::Coordinator),
        ("issue ca agent h1 --out h1", Role::Agent("h1".into())),
        ("issue ca tenant eva --out eva --days 7", Role::Tenant("eva".into())),
        ("issue ca admin root --out a", Role::Admin("root".into())),
    ] {
        let (code, printed) = pki(folder, line);
        assert_eq!(code, Some(0), "{printed}");
        let made = line.rsplit(' ').find(|word| folder.join(word).is_dir()).unwrap();
        let identity = Identity::read(&folder.join(made)).unwrap();
        assert_eq!((&identity.name().unwrap().role, &*identity.name().unwrap().cluster), (&role, "physics"));
        let mode = std::fs::metadata(folder.join(made).join("tls.key")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
    let before = std::fs::read(folder.join("eva/tls.crt")).unwrap();
    let (code, printed) = pki(folder, "renew ca eva h1");
    assert!(code == Some(0) && printed.contains("tenant eva") && printed.contains("agent h1"), "{printed}");
    assert_ne!(std::fs::read(folder.join("eva/tls.crt")).unwrap(), before);
    assert_eq!(Identity::read(&folder.join("eva")).unwrap().name().unwrap().role, Role::Tenant("eva".into()));
}

#[test]
fn the_list_has_the_days_that_are_left() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    for line in ["init ca --cluster c1", "issue ca agent h1 --out h1 --days 7", "issue ca tenant eva --out eva"] {
        assert_eq!(pki(folder, line).0, Some(0));
    }
    let (code, printed) = pki(folder, "list ca h1");
    let rows: Vec<Vec<&str>> = printed.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(code, Some(0), "{printed}");
    assert_eq!(rows[1], ["certificate", "authority", "c1", "3649", "ca"]);
    assert_eq!(rows[2], ["agent", "h1", "c1", "6", "issued", "by", "ca"]);
    assert_eq!(rows[3], ["tenant", "eva", "c1", "364", "issued", "by", "ca"]);
    assert_eq!(rows[4], ["agent", "h1", "c1", "6", "h1"]);
    assert!(printed.contains("renew those with fewer than 30 days"), "{printed}");
    // The newest certificate of a name counts.
    assert_eq!(pki(folder, "renew ca h1 --days 90").0, Some(0));
    let (_, printed) = pki(folder, "list ca h1");
    assert!(printed.matches(" 89 ").count() == 2 && !printed.contains("renew those"), "{printed}");
    let (code, printed) = pki(folder, "list none");
    assert!(code == Some(125) && printed.contains("none/ca.crt"), "{printed}");
}

#[test]
fn a_reader_that_has_gone_is_no_failure() {
    let folder = tempfile::tempdir().unwrap();
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut init = Command::new(env!("CARGO_BIN_EXE_accord"));
    let output = init.args(["pki", "init", "ca"]).current_dir(&folder).stdout(writer).output().unwrap();
    assert!(output.status.success(), "{}: {}", output.status, String::from_utf8_lossy(&output.stderr));
    assert!(folder.path().join("ca/ca.key").is_file());
}

#[test]
fn pki_overwrites_no_file_and_names_missing_arguments() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    assert_eq!(pki(folder, "init ca --cluster c1").0, Some(0));
    assert_eq!(pki(folder, "issue ca agent h1 --out h1").0, Some(0));
    for (line, words) in [
        ("init ca --cluster c2", ["is there already", "nothing was overwritten"]),
        ("issue ca agent h2 --out h1", ["is there already", "accord pki renew"]),
        ("issue none agent h2 --out h2", ["cannot read none/ca.crt", "accord pki init"]),
        ("issue ca agent --out h2", ["whose?", "agent NAME"]),
        ("issue ca coordinator h1 --out h2", ["one coordinator", "leave its name out"]),
        ("issue ca agent a/b --out h2", ["can't be a certificate's name", "letters"]),
        ("renew ca none", ["none/tls.crt", "accord pki issue"]),
    ] {
        let (code, printed) = pki(folder, line);
        assert!(code == Some(125) && words.iter().all(|word| printed.contains(word)), "{line}: {code:?} {printed}");
    }
    assert!(!folder.join("h2").exists());
    assert_eq!(Identity::read(&folder.join("h1")).unwrap().name().unwrap().role, Role::Agent("h1".into()));
}
