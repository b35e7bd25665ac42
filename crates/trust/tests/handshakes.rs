//! Handshakes between certificates of every kind, and the messages when they fail.
#![cfg(feature = "issue")]

use accord_trust::access::{Act, check};
use accord_trust::attester::Attester;
use accord_trust::identity::name_of_peer;
use accord_trust::issue::{Authority, CA_KEY_FILE};
use accord_trust::{Identity, PeerName, Role, Trust, explain};
use rustls::pki_types::{ServerName, UnixTime};
use rustls::time_provider::TimeProvider;
use rustls::{ClientConnection, ServerConnection};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

const LONG: Duration = Duration::from_secs(3600);
const PROTOCOL: &[u8] = b"accord-test/1";

fn tenant() -> Role {
    Role::Tenant("eva".into())
}

/// A clock that is set back.
#[derive(Debug)]
struct SetBack(Duration);

impl TimeProvider for SetBack {
    fn current_time(&self) -> Option<UnixTime> {
        Some(UnixTime::since_unix_epoch(Duration::from_secs(UnixTime::now().as_secs()) - self.0))
    }
}

/// Returns the result of each end. In TLS 1.3 a client finishes before the server has verified its certificate.
fn shake(client: &Identity, server: &Identity) -> (Result<PeerName, String>, Result<PeerName, String>) {
    shake_earlier(client, server, Duration::ZERO)
}

/// The same with clocks that are set back.
fn shake_earlier(
    client: &Identity,
    server: &Identity,
    by: Duration,
) -> (Result<PeerName, String>, Result<PeerName, String>) {
    let name = ServerName::try_from("accord").unwrap();
    let mut config = (*client.to_coordinator(PROTOCOL).unwrap()).clone();
    config.time_provider = Arc::new(SetBack(by));
    let mut client = ClientConnection::new(Arc::new(config), name).unwrap();
    let mut config = (*server.server(&[PROTOCOL]).unwrap()).clone();
    config.time_provider = Arc::new(SetBack(by));
    let mut server = ServerConnection::new(Arc::new(config)).unwrap();
    let (mut near, mut far) = (Ok(()), Ok(()));
    for _ in 0..4 {
        let mut bytes = Vec::new();
        while client.wants_write() {
            client.write_tls(&mut bytes).unwrap();
        }
        let mut rest = &bytes[..];
        while !rest.is_empty() && server.read_tls(&mut rest).is_ok() {
            far = far.and(server.process_new_packets().map(drop));
        }
        let mut bytes = Vec::new();
        while server.wants_write() {
            server.write_tls(&mut bytes).unwrap();
        }
        let mut rest = &bytes[..];
        while !rest.is_empty() && client.read_tls(&mut rest).is_ok() {
            near = near.and(client.process_new_packets().map(drop));
        }
    }
    let reported = |error: rustls::Error, peer: &str| explain::handshake(&error, peer).to_string();
    let name = |chain| name_of_peer(chain).map_err(|error| error.to_string());
    (
        near.map_err(|error| reported(error, "the coordinator")).and_then(|()| name(client.peer_certificates())),
        far.map_err(|error| reported(error, "the program")).and_then(|()| name(server.peer_certificates())),
    )
}

#[test]
fn members_of_a_cluster_know_each_other() {
    let authority = Authority::new("c1", LONG).unwrap();
    let coordinator = authority.identity(Role::Coordinator, LONG).unwrap();
    for role in [tenant(), Role::Agent("h1".into()), Role::Admin("root".into())] {
        let (near, far) = shake(&authority.identity(role.clone(), LONG).unwrap(), &coordinator);
        assert_eq!(near.unwrap().role, Role::Coordinator);
        let far = far.unwrap();
        assert_eq!((&*far.cluster, &far.role), ("c1", &role));
        assert_eq!(check(&far, Act::Register).is_ok(), matches!(role, Role::Agent(_)));
    }
}

fn refused(printed: Result<PeerName, String>, words: [&str; 2]) {
    let printed = printed.unwrap_err();
    assert!(words.iter().all(|word| printed.contains(word)), "{printed}");
}

#[test]
fn strangers_are_refused_with_a_remedy_on_both_sides() {
    let (own, other) = (Authority::new("c1", LONG).unwrap(), Authority::new("c1", LONG).unwrap());
    let coordinator = own.identity(Role::Coordinator, LONG).unwrap();
    // Another authority with the same name.
    let (near, _) = shake(&other.identity(tenant(), LONG).unwrap(), &coordinator);
    refused(near, ["the certificate of the coordinator is of another authority", "ca.crt"]);
    // The client trusts the coordinator, but not the other way round.
    let unauthenticated = other.issue(tenant(), LONG).unwrap();
    let folder = tempfile::tempdir().unwrap();
    own.write(folder.path()).unwrap();
    let ca = std::fs::read(folder.path().join("ca.crt")).unwrap();
    let unauthenticated =
        Identity::from_pem(&ca, unauthenticated.certificate.as_bytes(), unauthenticated.key.as_bytes()).unwrap();
    let (near, far) = shake(&unauthenticated, &coordinator);
    refused(near, ["does not know the authority of this certificate", "ca.crt"]);
    refused(far, ["the certificate of the program is of another authority", "ca.crt"]);
    // Neither an agent nor a tenant can impersonate the coordinator.
    for role in [tenant(), Role::Agent("h1".into()), Role::Admin("root".into())] {
        let (near, _) = shake(&own.identity(tenant(), LONG).unwrap(), &own.identity(role.clone(), LONG).unwrap());
        refused(near, [&format!("{role} may not be the coordinator"), "coordinator"]);
    }
}

/// A clock that is set back by hours, before or after certificates are issued, does not lock a machine out.
#[test]
fn certificates_count_where_a_clock_was_set_back() {
    const HOUR: Duration = Duration::from_secs(3600);
    let authority = Authority::new("c1", LONG).unwrap();
    let coordinator = authority.identity(Role::Coordinator, LONG).unwrap();
    let own = authority.identity(tenant(), LONG).unwrap();
    let (near, far) = shake_earlier(&own, &coordinator, 20 * HOUR);
    assert_eq!((near.unwrap().role, far.unwrap().role), (Role::Coordinator, tenant()));
    let (near, _) = shake_earlier(&own, &coordinator, 48 * HOUR);
    assert!(near.is_err());
}

#[test]
fn certificates_end() {
    let authority = Authority::new("c1", LONG).unwrap();
    let coordinator = authority.identity(Role::Coordinator, LONG).unwrap();
    let ended = authority.identity(tenant(), Duration::ZERO).unwrap();
    std::thread::sleep(Duration::from_millis(1100));
    let (near, far) = shake(&ended, &coordinator);
    refused(near, ["this certificate is not valid at this time", "renew"]);
    refused(far, ["has expired", "renew"]);
    let (near, _) = shake(&authority.identity(tenant(), LONG).unwrap(), &{
        let ended = authority.identity(Role::Coordinator, Duration::ZERO).unwrap();
        std::thread::sleep(Duration::from_millis(1100));
        ended
    });
    refused(near, ["the certificate of the coordinator has expired", "renew"]);
}

#[test]
fn clusters_that_share_an_authority_stay_apart() {
    // A site's authority may sign for several clusters.
    let authority = Authority::new("c1", LONG).unwrap();
    let folder = tempfile::tempdir().unwrap();
    authority.write(folder.path()).unwrap();
    let ca = std::fs::read(folder.path().join("ca.crt")).unwrap();
    let pair = rcgen::KeyPair::from_pem(&std::fs::read_to_string(folder.path().join(CA_KEY_FILE)).unwrap()).unwrap();
    let mut params = rcgen::CertificateParams::default();
    params.distinguished_name.remove(rcgen::DnType::CommonName);
    params.distinguished_name.push(rcgen::DnType::OrganizationName, "c1");
    params.distinguished_name.push(rcgen::DnType::CommonName, "certificate authority");
    let issuer = rcgen::Issuer::new(params, pair);
    let mut params = rcgen::CertificateParams::default();
    params.subject_alt_names = vec![rcgen::SanType::URI("accord://c2/tenant/eva".try_into().unwrap())];
    let pair = rcgen::KeyPair::generate().unwrap();
    let certificate = params.signed_by(&pair, &issuer).unwrap();
    let foreign = Identity::from_pem(&ca, certificate.pem().as_bytes(), pair.serialize_pem().as_bytes()).unwrap();
    let coordinator = authority.identity(Role::Coordinator, LONG).unwrap();
    let (near, far) = shake(&foreign, &coordinator);
    refused(near, ["it belongs to the cluster c1, not c2", "one cluster"]);
    assert!(far.is_err());
}

fn text(folder: &Path, name: &str) -> String {
    std::fs::read_to_string(folder.join(name)).unwrap()
}

#[test]
fn files_are_private_and_never_overwritten() {
    let folder = tempfile::tempdir().unwrap();
    let (pki, agent) = (folder.path().join("pki"), folder.path().join("agent"));
    let authority = Authority::new("c1", LONG).unwrap();
    authority.write(&pki).unwrap();
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&pki), mode(&pki.join(CA_KEY_FILE))), (0o700, 0o600));
    let error = Authority::new("c2", LONG).unwrap().write(&pki).unwrap_err().to_string();
    assert!(error.contains("is there already") && error.contains("nothing was overwritten"), "{error}");

    let authority = Authority::read(&pki).unwrap();
    assert_eq!(authority.cluster(), "c1");
    authority.issue_into(&agent, Role::Agent("h1".into()), LONG).unwrap();
    assert_eq!((mode(&agent), mode(&agent.join("tls.key"))), (0o700, 0o600));
    assert!(authority.issue_into(&agent, Role::Agent("h2".into()), LONG).is_err());
    assert_eq!(Identity::read(&agent).unwrap().name().unwrap().role, Role::Agent("h1".into()));

    // Peers that trust the written authority accept certificates signed by the same authority after it is read.
    let coordinator = Authority::read(&pki).unwrap().identity(Role::Coordinator, LONG).unwrap();
    assert!(shake(&Identity::read(&agent).unwrap(), &coordinator).1.is_ok());

    std::fs::set_permissions(agent.join("tls.key"), std::fs::Permissions::from_mode(0o644)).unwrap();
    let error = Identity::read(&agent).unwrap_err().to_string();
    assert!(error.contains("mode 644") && error.contains("chmod 600"), "{error}");
    std::fs::set_permissions(pki.join(CA_KEY_FILE), std::fs::Permissions::from_mode(0o666)).unwrap();
    assert!(Authority::read(&pki).is_err());
}

/// Returns an Ed25519 key with this seed.
fn ed25519(seed: &[u8; 32]) -> rcgen::KeyPair {
    const HEAD: [u8; 16] = [0x30, 0x2e, 2, 1, 0, 0x30, 5, 6, 3, 0x2b, 0x65, 0x70, 4, 0x22, 4, 0x20];
    rcgen::KeyPair::try_from([&HEAD[..], seed].concat()).unwrap()
}

/// Only a site's own keys can be weak: `accord pki` draws random ones.
#[test]
fn keys_without_randomness_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let authority = Authority::new("c1", LONG).unwrap();
    authority.write(folder.path()).unwrap();
    let (ca, ca_key) = (text(folder.path(), "ca.crt"), text(folder.path(), CA_KEY_FILE));
    let mut params = rcgen::CertificateParams::default();
    params.distinguished_name.push(rcgen::DnType::CommonName, "certificate authority");
    let issuer = rcgen::Issuer::new(params, rcgen::KeyPair::from_pem(&ca_key).unwrap());
    let identity = |seed: &[u8; 32]| {
        let mut params = rcgen::CertificateParams::default();
        params.subject_alt_names = vec![rcgen::SanType::URI("accord://c1/tenant/eva".try_into().unwrap())];
        let pair = ed25519(seed);
        let certificate = params.signed_by(&pair, &issuer).unwrap().pem();
        Identity::from_pem(ca.as_bytes(), certificate.as_bytes(), pair.serialize_pem().as_bytes())
    };
    identity(&std::array::from_fn(|at| (at * at * 7) as u8)).unwrap();
    let counting = std::array::from_fn(|at| at as u8);
    for seed in
        [&[0; 32], &[0xa5; 32], &counting, b"this is the key of our cluster  ", b"0123456789abcdef0123456789abcdef"]
    {
        refused(
            identity(seed).map(|own| own.name().unwrap().clone()).map_err(|error| error.to_string()),
            ["drawn by chance", "accord pki issue"],
        );
    }
    // An authority's key must be random too.
    let pair = ed25519(&[0; 32]);
    let mut params = rcgen::CertificateParams::default();
    params.subject_alt_names = vec![rcgen::SanType::URI("accord://c1/ca".try_into().unwrap())];
    params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    std::fs::write(folder.path().join("ca.crt"), params.self_signed(&pair).unwrap().pem()).unwrap();
    std::fs::write(folder.path().join(CA_KEY_FILE), pair.serialize_pem()).unwrap();
    let error = Authority::read(folder.path()).err().unwrap().to_string();
    assert!(error.contains("ca.key is no key that was drawn by chance"), "{error}");
}

#[test]
fn short_rsa_keys_are_refused_as_ones_own_and_as_an_authoritys() {
    let (ca, key) = (include_bytes!("data/rsa-1024-ca.crt"), include_bytes!("data/rsa-1024.key"));
    let own = Identity::from_pem(ca, include_bytes!("data/rsa-1024.crt"), key);
    assert!(own.unwrap_err().cause().contains("tls.key can't be used"));
    // A good key with a certificate that a weak key has signed is refused as well.
    let of_weak = || {
        Identity::from_pem(ca, include_bytes!("data/p256-of-rsa-1024.crt"), include_bytes!("data/p256-pkcs8.key"))
            .unwrap()
    };
    let (near, far) = shake(&of_weak(), &of_weak());
    assert!(near.is_err() && far.is_err(), "{near:?} {far:?}");
}

#[test]
fn certificate_files_that_others_can_change_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let own = folder.path().join("own");
    Authority::new("c1", LONG).unwrap().issue_into(&own, tenant(), LONG).unwrap();
    let allow = |name: &str, mode| {
        std::fs::set_permissions(own.join(name), std::fs::Permissions::from_mode(mode)).unwrap();
    };
    let refused_as = |name: &str| {
        for read in [Identity::read(&own), Identity::of_user(&own, &Attester::of_settings(Some("/nowhere"), None))] {
            let error = read.unwrap_err().to_string();
            assert!(
                error.contains("others than its user may change") && error.contains("chmod go-w"),
                "{name}: {error}"
            );
        }
    };
    for name in ["ca.crt", "tls.crt", ""] {
        let before = if name.is_empty() { 0o755 } else { 0o644 };
        allow(name, before);
        Identity::read(&own).unwrap();
        for writable in [0o020, 0o002] {
            allow(name, before | writable);
            refused_as(name);
        }
        allow(name, before);
    }
    // The mode of a folder in which Kubernetes mounts secrets.
    allow("", 0o3777);
    Identity::read(&own).unwrap();
    // A user's folder with the authority alone.
    for name in ["tls.crt", "tls.key"] {
        std::fs::remove_file(own.join(name)).unwrap();
    }
    Identity::of_user(&own, &Attester::of_settings(Some("/nowhere"), None)).unwrap();
    allow("ca.crt", 0o666);
    assert!(
        Identity::of_user(&own, &Attester::of_settings(Some("/nowhere"), None))
            .unwrap_err()
            .cause()
            .contains("others than its user may change")
    );
}

#[test]
fn a_certificates_file_that_holds_a_key_is_as_private_as_one() {
    let folder = tempfile::tempdir().unwrap();
    let own = folder.path().join("own");
    Authority::new("c1", LONG).unwrap().issue_into(&own, tenant(), LONG).unwrap();
    let both = text(&own, "tls.crt") + &text(&own, "tls.key");
    std::fs::write(own.join("tls.crt"), both).unwrap();
    Identity::read(&own).unwrap();
    std::fs::set_permissions(own.join("tls.crt"), std::fs::Permissions::from_mode(0o644)).unwrap();
    let error = Identity::read(&own).unwrap_err().to_string();
    assert!(error.contains("others than its user may read") && error.contains("tls.crt"), "{error}");
}

#[test]
fn mismatched_certificate_and_key_are_refused_with_a_reason() {
    let folder = tempfile::tempdir().unwrap();
    let authority = Authority::new("c1", LONG).unwrap();
    let (a, b) = (folder.path().join("a"), folder.path().join("b"));
    authority.issue_into(&a, tenant(), LONG).unwrap();
    authority.issue_into(&b, tenant(), LONG).unwrap();
    let error = |folder: &Path| Identity::read(folder).unwrap_err().to_string();
    std::fs::copy(b.join("tls.key"), a.join("tls.key")).unwrap();
    assert!(error(&a).contains("tls.key is not the key of tls.crt"), "{}", error(&a));
    std::fs::write(a.join("tls.key"), "no key").unwrap();
    assert!(error(&a).contains("tls.key is no key"), "{}", error(&a));
    std::fs::remove_file(b.join("ca.crt")).unwrap();
    assert!(error(&b).contains("cannot read") && error(&b).contains("ACCORD_TLS"), "{}", error(&b));
    std::fs::write(b.join("ca.crt"), "").unwrap();
    assert!(error(&b).contains("ca.crt holds no certificate"), "{}", error(&b));
    for name in ["", "a b", "../x"] {
        assert!(authority.issue(Role::Agent(name.into()), LONG).is_err(), "{name:?}");
        assert!(Authority::new(name, LONG).is_err(), "{name:?}");
    }
}

/// A service may read its key through its group; a user's key is the user's alone.
#[test]
fn renewed_certificate_files_keep_owner_group_and_mode() {
    let folder = tempfile::tempdir().unwrap();
    let own = folder.path().join("own");
    let authority = Authority::new("c1", LONG).unwrap();
    authority.issue_into(&own, tenant(), LONG).unwrap();
    for (name, mode) in [("tls.key", 0o640), ("tls.crt", 0o644), ("ca.crt", 0o644)] {
        std::fs::set_permissions(own.join(name), std::fs::Permissions::from_mode(mode)).unwrap();
    }
    let service = 60_001;
    let access = |name: &str| {
        let now = std::fs::metadata(own.join(name)).unwrap();
        (now.uid(), now.gid(), now.mode() & 0o777)
    };
    let is_root = std::os::unix::fs::chown(own.join("tls.key"), None, Some(service)).is_ok();
    let key = text(&own, "tls.key");
    authority.renew(&own, LONG).unwrap();
    assert_ne!(text(&own, "tls.key"), key);
    assert_eq!([access("tls.crt").2, access("ca.crt").2], [0o644, 0o644]);
    if !is_root {
        // A renewed key of a user is private, even if the old one was not.
        assert_eq!(access("tls.key").2, 0o600);
        return;
    }
    assert_eq!(access("tls.key"), (0, service, 0o640));
    std::os::unix::fs::chown(own.join("tls.key"), Some(service), None).unwrap();
    authority.renew(&own, LONG).unwrap();
    assert_eq!(access("tls.key"), (service, service, 0o600));
}

#[test]
fn a_renewed_certificate_counts_from_the_next_connection_on() {
    let folder = tempfile::tempdir().unwrap();
    let own = folder.path().join("own");
    let authority = Authority::new("c1", LONG).unwrap();
    authority.issue_into(&own, tenant(), LONG).unwrap();
    let trust = Trust::read(&own).unwrap();
    let quiet = |error: &accord_types::Error| panic!("{error}");
    let first = trust.current(quiet);
    assert!(Arc::ptr_eq(&first, &trust.current(quiet)), "nothing has changed");
    let before = text(&own, "tls.crt");
    assert_eq!(authority.renew(&own, LONG).unwrap().role, tenant());
    assert_ne!(text(&own, "tls.crt"), before);
    assert!(!Arc::ptr_eq(&first, &trust.current(quiet)), "it was renewed");

    // A half-done renewal is reported once, and the previous identity stays.
    let good = text(&own, "tls.key");
    std::fs::write(own.join("tls.key"), text(&own, "tls.crt")).unwrap();
    let mut printed = Vec::new();
    let kept = trust.current(|error| printed.push(error.to_string()));
    assert_eq!(kept.name().unwrap().role, tenant());
    assert!(printed.len() == 1 && printed[0].contains("tls.key"), "{printed:?}");
    trust.current(quiet);
    std::fs::write(own.join("tls.key"), good).unwrap();
    trust.current(quiet);

    // An authority of another cluster renews no certificate.
    let error = Authority::new("c2", LONG).unwrap().renew(&own, LONG).unwrap_err().to_string();
    assert!(error.contains("of the cluster c1, not c2"), "{error}");
}
