use super::file::RECORDS;
use super::format::{Conversion, backup_path};
use super::{Changes, FileStore, Store};
use accord_cluster::{Millis, Records};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use tempfile::TempDir;

const UNIX_MS: u64 = 1_790_000_000_000;

fn file() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state");
    (folder, path)
}

fn changes(of: &[(&str, Option<&str>)]) -> Changes {
    of.iter().map(|(key, value)| ((*key).to_owned(), value.map(|value| value.as_bytes().to_vec()))).collect()
}

fn records(of: &[(&str, &str)]) -> Records {
    of.iter().map(|(key, value)| ((*key).to_owned(), value.as_bytes().to_vec())).collect()
}

fn refusal(path: &std::path::Path) -> String {
    FileStore::open(path, UNIX_MS).err().unwrap().to_string()
}

#[test]
fn values_last_and_epochs_go_up() {
    let (_folder, path) = file();
    let mut opened = FileStore::open(&path, UNIX_MS).unwrap();
    assert_eq!((opened.records.len(), opened.restart.now), (0, Millis(0)));
    opened.store.commit(&changes(&[("a", Some("1")), ("b", Some("2"))]), Millis(5_000), UNIX_MS).unwrap();
    opened.store.commit(&changes(&[("a", None), ("b", Some("3"))]), Millis(6_000), UNIX_MS).unwrap();
    let epoch = opened.restart.epoch;
    drop(opened);
    let opened = FileStore::open(&path, UNIX_MS).unwrap();
    assert_eq!(opened.records, records(&[("b", "3")]));
    // Without a reboot the machine's uptime counts, not the wall clock.
    assert!((6_000..60_000).contains(&opened.restart.now.0), "{:?}", opened.restart);
    assert_eq!(opened.restart.epoch, epoch + 1);
    let message = refusal(&path);
    assert!(message.contains("another coordinator has it open; stop that one"), "{message}");
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
}

#[test]
fn a_restored_backup_has_a_higher_epoch_than_the_states_after_it() {
    let (_folder, path) = file();
    drop(FileStore::open(&path, UNIX_MS).unwrap());
    let backup = fs::read(&path).unwrap();
    let epochs: Vec<u64> = (0..3).map(|_| FileStore::open(&path, UNIX_MS).unwrap().restart.epoch).collect();
    fs::write(&path, backup).unwrap();
    assert!(FileStore::open(&path, UNIX_MS + 3_600_000).unwrap().restart.epoch > epochs[2]);
}

#[test]
fn files_that_are_no_state_are_refused_with_cause_and_remedy() {
    let (folder, path) = file();
    fs::write(&path, [7; 8_192]).unwrap();
    let message = refusal(&path);
    assert!(message.contains("it is not the state of a coordinator; name another file"), "{message}");
    let message = refusal(&folder.path().join("none/state"));
    assert!(message.contains("make its folder, and start the coordinator again"), "{message}");
}

#[test]
fn a_write_that_was_torn_at_any_place_leaves_the_last_whole_state() {
    let (_folder, path) = file();
    let mut opened = FileStore::open(&path, UNIX_MS).unwrap();
    opened.store.commit(&changes(&[("a", Some("1"))]), Millis(1), UNIX_MS).unwrap();
    let before = fs::read(&path).unwrap();
    opened.store.commit(&changes(&[("a", Some("2")), ("b", Some("2"))]), Millis(2), UNIX_MS).unwrap();
    let after = fs::read(&path).unwrap();
    drop(opened);
    let different: Vec<usize> = (0..after.len()).filter(|at| before.get(*at) != after.get(*at)).collect();
    let torn = path.with_extension("torn");
    // Data reaches the disk before the header that makes it valid.
    let data = different.iter().copied().filter(|at| *at >= 4_096);
    let every = accord_test_tier::pick(389, 97);
    let first = usize::try_from(accord_test_tier::first_seed(1)).unwrap() % every;
    let mut written = before.clone();
    written.resize(after.len().max(before.len()), 0);
    for (count, at) in data.enumerate() {
        written[at] = after[at];
        if count % every == first {
            fs::write(&torn, &written).unwrap();
            let opened = FileStore::open(&torn, UNIX_MS).unwrap();
            assert_eq!(opened.records, records(&[("a", "1")]), "torn at {at}");
        }
    }
}

#[test]
fn a_file_that_is_cut_off_or_overwritten_is_refused_or_has_a_whole_state() {
    let (_folder, path) = file();
    let mut opened = FileStore::open(&path, UNIX_MS).unwrap();
    let many: Vec<(String, String)> = (0..2_000).map(|key| (format!("key {key}"), "x".repeat(200))).collect();
    let of: Vec<_> = many.iter().map(|(key, value)| (key.as_str(), Some(value.as_str()))).collect();
    opened.store.commit(&changes(&of), Millis(1), UNIX_MS).unwrap();
    drop(opened);
    let whole = fs::read(&path).unwrap();
    let damaged = path.with_extension("damaged");
    let mut refused = 0;
    let mut check = |bytes: &[u8], what: &str| {
        fs::write(&damaged, bytes).unwrap();
        match FileStore::open(&damaged, UNIX_MS) {
            Ok(mut opened) => {
                assert!(
                    opened.records.iter().all(|(key, value)| key.starts_with("key ") && value.len() == 200),
                    "{what}"
                );
                let written = opened.store.commit(&changes(&[("more", Some("1"))]), Millis(2), UNIX_MS);
                assert!(written.is_ok() || written.unwrap_err().to_string().contains("damaged"), "{what}");
            }
            Err(error) => {
                refused += 1;
                let message = error.to_string();
                let is_told = ["it is damaged", "it is not the state of a coordinator"]
                    .iter()
                    .any(|cause| message.contains(cause));
                assert!(is_told, "{what}: {message}");
            }
        }
    };
    for part in 1..16 {
        check(&whole[..whole.len() * part / 16], &format!("cut off at {part}/16"));
    }
    let first = usize::try_from(accord_test_tier::first_seed(1)).unwrap();
    for case in 0..accord_test_tier::pick(16, 256) {
        let at = (first + case) * 7_919 % (whole.len() / 512) * 512;
        let mut bytes = whole.clone();
        bytes[at..at + 512].fill(0xA5);
        check(&bytes, &format!("overwritten at {at}"));
    }
    assert!(refused >= 8, "{refused}");
}

#[test]
fn an_older_format_is_converted_with_a_backup_and_a_newer_one_is_refused() {
    let (_folder, path) = file();
    let mut opened = FileStore::open(&path, UNIX_MS).unwrap();
    opened.store.commit(&changes(&[("a", Some("1"))]), Millis(1), UNIX_MS).unwrap();
    drop(opened);
    let rename: Conversion = |transaction| {
        let mut records = transaction.open_table(RECORDS)?;
        let value = records.remove("a")?.map(|value| value.value().to_vec()).unwrap_or_default();
        records.insert("renamed", value.as_slice())?;
        Ok(())
    };
    let opened = FileStore::open_as(&path, UNIX_MS, &[rename]).unwrap();
    assert_eq!(opened.records, records(&[("renamed", "1")]));
    drop(opened);
    let backup = backup_path(&path, 1);
    let message = refusal(&path);
    assert!(message.contains("a newer release has written it (format 2, and this one knows up to 1)"), "{message}");
    assert!(message.contains(&format!("put the backup {} in its place", backup.display())), "{message}");
    fs::copy(&backup, &path).unwrap();
    assert_eq!(FileStore::open(&path, UNIX_MS).unwrap().records, records(&[("a", "1")]));
}

#[test]
fn another_file_in_its_place_is_not_written() {
    let (_folder, path) = file();
    let mut opened = FileStore::open(&path, UNIX_MS).unwrap();
    opened.store.database = None;
    opened.store.commit(&changes(&[("a", Some("1"))]), Millis(1), UNIX_MS).unwrap();
    opened.store.database = None;
    drop(FileStore::open(&path, UNIX_MS).unwrap());
    let message = opened.store.commit(&changes(&[("a", Some("2"))]), Millis(2), UNIX_MS).unwrap_err().to_string();
    assert!(message.contains("another coordinator has written it; start this coordinator again"), "{message}");
    assert_eq!(FileStore::open(&path, UNIX_MS).unwrap().records, records(&[("a", "1")]));
    fs::remove_file(&path).unwrap();
    let message = opened.store.commit(&changes(&[("a", Some("2"))]), Millis(2), UNIX_MS).unwrap_err().to_string();
    assert!(message.contains("put it back or make its folder"), "{message}");
    assert!(!path.exists());
}
