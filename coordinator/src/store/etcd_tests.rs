use super::etcd_store::{EtcdStore, Leadership};
use super::{Changes, Opened, Store};
use crate::etcd::EtcdLocation;
use crate::leadership::Election;
use accord_cluster::{Millis, Records};

#[allow(dead_code, reason = "other tests use the rest")]
#[path = "../../tests/etcd/mod.rs"]
mod server;
use server::Etcd;

const UNIX_MS: u64 = 1_790_000_000_000;

fn location(etcd: &Etcd) -> EtcdLocation {
    EtcdLocation::parse(&etcd.location("sites/a")).unwrap().unwrap()
}

/// A coordinator that leads from now on.
fn elected(etcd: &Etcd, cluster: &str) -> (Election, Leadership) {
    let election = Election::begin(location(etcd), None, "h0:1".to_owned()).unwrap();
    let runtime = accord_proto::runtime::one_threaded().unwrap();
    let revision = runtime.block_on(election.elected()).unwrap();
    (election, Leadership { revision, cluster: cluster.to_owned() })
}

fn resign(election: Election) {
    accord_proto::runtime::one_threaded().unwrap().block_on(election.resign());
}

fn open(etcd: &Etcd, leadership: &Leadership) -> Opened<EtcdStore> {
    EtcdStore::open(&location(etcd), None, leadership.clone(), UNIX_MS).unwrap()
}

fn refusal(etcd: &Etcd, leadership: Leadership) -> String {
    EtcdStore::open(&location(etcd), None, leadership, UNIX_MS).err().unwrap().to_string()
}

/// Changes that need several transactions: many records, and a long one.
fn many(value: u8, long: usize) -> Changes {
    let mut changes: Changes = (0..300).map(|at| (format!("job/{at}"), Some(vec![value; 9]))).collect();
    changes.insert("account/a\0b".to_owned(), Some(vec![value]));
    changes.insert("policy".to_owned(), Some(vec![value; long]));
    changes
}

fn records(changes: &Changes) -> Records {
    changes.iter().filter_map(|(key, value)| Some((key.clone(), value.clone()?))).collect()
}

#[test]
fn records_of_any_number_and_length_outlast_a_coordinator() {
    let Some(etcd) = Etcd::start(1, &[]) else { return };
    let (election, leadership) = elected(&etcd, "north");
    let mut opened = open(&etcd, &leadership);
    assert_eq!((opened.records.len(), opened.restart.now), (0, Millis(0)));
    let epoch = opened.restart.epoch;
    let first = many(1, 3_000_000);
    opened.store.commit(&first, Millis(5_000), UNIX_MS).unwrap();
    drop(opened);
    let mut opened = open(&etcd, &leadership);
    assert_eq!(opened.records, records(&first));
    assert_eq!(opened.restart.epoch, epoch + 1);
    assert!((5_000..600_000).contains(&opened.restart.now.0), "{:?}", opened.restart);
    // A shorter value loses its further parts, and a deleted one all of them.
    let second: Changes = [("policy".to_owned(), Some(vec![2; 600_000])), ("job/7".to_owned(), None)].into();
    opened.store.commit(&second, Millis(6_000), UNIX_MS).unwrap();
    drop(opened);
    let mut opened = open(&etcd, &leadership);
    assert_eq!((opened.records["policy"].len(), opened.records.len()), (600_000, 301));
    opened.store.commit(&[("policy".to_owned(), None)].into(), Millis(7_000), UNIX_MS).unwrap();
    drop(opened);
    assert_eq!(open(&etcd, &leadership).records.len(), 300);
    resign(election);
}

#[test]
fn a_former_leader_writes_nothing() {
    let Some(etcd) = Etcd::start(1, &[]) else { return };
    let (first, leadership) = elected(&etcd, "north");
    let mut former = open(&etcd, &leadership);
    former.store.commit(&many(1, 9), Millis(1), UNIX_MS).unwrap();
    resign(first);
    let superseded = |error: super::StoreError| error.is_superseded();
    assert!(former.store.commit(&many(2, 9), Millis(2), UNIX_MS).is_err_and(superseded));
    let (second, leadership) = elected(&etcd, "north");
    let opened = open(&etcd, &leadership);
    assert!(former.store.commit(&many(3, 9), Millis(3), UNIX_MS).is_err_and(superseded));
    assert!(
        EtcdStore::open(&location(&etcd), None, Leadership { revision: 1, ..leadership.clone() }, UNIX_MS)
            .is_err_and(superseded)
    );
    assert!(opened.restart.epoch > former.restart.epoch);
    drop(opened);
    assert_eq!(open(&etcd, &leadership).records, records(&many(1, 9)));
    resign(second);
}

#[test]
fn changes_that_are_staged_count_all_or_not_at_all() {
    let Some(etcd) = Etcd::start(1, &[]) else { return };
    let (election, leadership) = elected(&etcd, "north");
    let mut opened = open(&etcd, &leadership);
    opened.store.commit(&many(1, 9), Millis(1), UNIX_MS).unwrap();
    // The coordinator ends before its changes count.
    opened.store.stage_only(&many(2, 9), false);
    drop(opened);
    let mut opened = open(&etcd, &leadership);
    assert_eq!(opened.records, records(&many(1, 9)));
    // And once they count, before any of them is carried out.
    opened.store.stage_only(&many(3, 9), true);
    drop(opened);
    assert_eq!(open(&etcd, &leadership).records, records(&many(3, 9)));
    assert!(!etcd.control(&["get", "--prefix", "--keys-only", "/sites/a/"]).contains("staged"));
    resign(election);
}

#[test]
fn other_states_are_refused_with_cause_and_remedy() {
    let Some(etcd) = Etcd::start(1, &[]) else { return };
    etcd.control(&["put", "/sites/a/record/job/1", "{}"]);
    let (election, leadership) = elected(&etcd, "north");
    let message = refusal(&etcd, leadership.clone());
    assert!(message.contains("not the state of a coordinator; name another prefix by --state"), "{message}");
    etcd.control(&["del", "/sites/a/record/job/1"]);
    drop(open(&etcd, &leadership));
    let message = refusal(&etcd, Leadership { cluster: "south".to_owned(), ..leadership.clone() });
    assert!(message.contains(r#"it is of the cluster "north""#) && message.contains("another prefix"), "{message}");
    let meta = etcd.control(&["get", "--print-value-only", "/sites/a/meta"]);
    etcd.control(&["put", "/sites/a/meta", meta.trim().replace(r#""format":1"#, r#""format":9"#).as_str()]);
    let message = refusal(&etcd, leadership.clone());
    assert!(message.contains("a newer release has written it (format 9"), "{message}");
    etcd.control(&["put", "/sites/a/meta", "none"]);
    let message = refusal(&etcd, leadership);
    assert!(message.contains("it is damaged: the value of meta") && message.contains("restore a backup"), "{message}");
    resign(election);
}

#[test]
fn a_full_etcd_is_named_and_written_again_once_it_has_room() {
    let Some(etcd) = Etcd::start(1, &["--quota-backend-bytes", "16777216"]) else { return };
    let (election, leadership) = elected(&etcd, "north");
    let mut opened = open(&etcd, &leadership);
    let error = (0..100).find_map(|at| opened.store.commit(&many(at, 1_000_000), Millis(1), UNIX_MS).err());
    let message = error.expect("it is never full").to_string();
    assert!(message.contains("database space exceeded") && message.contains("etcdctl defrag"), "{message}");
    let status = etcd.control(&["endpoint", "status", "--write-out=json"]);
    let revision: String =
        status.split(r#""revision":"#).nth(1).unwrap().chars().take_while(char::is_ascii_digit).collect();
    etcd.control(&["compact", &revision]);
    etcd.control(&["defrag"]);
    etcd.control(&["alarm", "disarm"]);
    opened.store.commit(&many(200, 9), Millis(2), UNIX_MS).unwrap();
    drop(opened);
    assert_eq!(open(&etcd, &leadership).records, records(&many(200, 9)));
    resign(election);
}
