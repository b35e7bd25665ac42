//! Certificates issued by invitation.
#![cfg(feature = "issue")]
#![forbid(unsafe_code)]

use accord_trust::issue::Authority;
use accord_trust::join::{Code, Invitation, Issuer, Open, accept, join};
use accord_trust::register::issued;
use accord_trust::{Identity, Role};
use accord_types::Result;
use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

const HOUR: Duration = Duration::from_secs(3600);
const COORDINATOR: &str = "server.site:7447";

fn node(name: &str) -> Role {
    Role::Agent(name.to_owned())
}

fn invitation(role: Role) -> Invitation {
    Invitation { server: "server.site:7449".to_owned(), role, code: Code::random().unwrap() }
}

fn issuer(authority: Authority) -> Issuer {
    Issuer { authority, lifetime: HOUR, coordinator: COORDINATOR.to_owned() }
}

/// Results of both ends; `joined` has the client's role and coordinator.
struct JoinOutcome {
    accepted: Result<Role>,
    has_code: bool,
    joined: Result<(Role, String)>,
}

fn meet(issuer: &Issuer, open: &Open, by: &Invitation) -> JoinOutcome {
    let (ours, theirs) = UnixStream::pair().unwrap();
    for end in [&ours, &theirs] {
        end.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    }
    std::thread::scope(|scope| {
        let server = scope.spawn(move || {
            let has_code = AtomicBool::new(false);
            let accepted = accept(&ours, open, issuer, &has_code);
            let _ = ours.shutdown(Shutdown::Both);
            (accepted, has_code.into_inner())
        });
        let mut got = None;
        let joined = join(&theirs, by, |joined| {
            let issued = &joined.issued;
            let identity =
                Identity::from_pem(joined.authority.as_bytes(), issued.certificate.as_bytes(), issued.key.as_bytes())?;
            got = Some((identity.name()?.role.clone(), joined.coordinator.clone()));
            Ok(())
        });
        let _ = theirs.shutdown(Shutdown::Both);
        let (accepted, has_code) = server.join().unwrap();
        JoinOutcome { accepted, has_code, joined: joined.map(|()| got.unwrap()) }
    })
}

#[test]
fn an_invitation_gives_one_certificate_once() {
    let folder = tempfile::tempdir().unwrap();
    Authority::new("site", HOUR).unwrap().write(folder.path()).unwrap();
    let authority = issuer(Authority::read(folder.path()).unwrap());
    let invitations = [node("n1"), Role::Tenant("eva".into())].map(invitation);
    let open = Open::new(invitations.to_vec());
    let met = meet(&authority, &open, &invitations[0]);
    assert_eq!(met.joined.unwrap(), (node("n1"), COORDINATOR.to_owned()));
    assert_eq!(met.accepted.unwrap(), node("n1"));
    assert_eq!(open.roles(), [Role::Tenant("eva".into())]);
    let again = meet(&authority, &open, &invitations[0]);
    assert!(again.accepted.is_err());
    let printed = again.joined.unwrap_err().to_string();
    assert!(
        printed.contains("has no open invitation for agent n1") && printed.contains("accord setup admit"),
        "{printed}"
    );
    let names: Vec<_> = issued(folder.path()).unwrap().into_iter().map(|(name, _)| name.role).collect();
    assert_eq!(names, [node("n1")]);
}

#[test]
fn another_code_or_name_gets_nothing_and_closes_nothing() {
    let authority = issuer(Authority::new("site", HOUR).unwrap());
    let right = invitation(node("n1"));
    let open = Open::new(vec![right.clone()]);
    let other_code = invitation(node("n1"));
    let other_name = Invitation { role: node("n2"), ..right.clone() };
    let other_role = Invitation { role: Role::Admin("n1".into()), ..right.clone() };
    for wrong in [other_code, other_name, other_role] {
        let met = meet(&authority, &open, &wrong);
        assert!(met.accepted.is_err() && met.joined.is_err() && !met.has_code, "{wrong:?}");
    }
    assert!(meet(&authority, &open, &right).joined.is_ok());
}

/// Trusting a server without the code would give its authority control of the node.
#[test]
fn a_server_without_the_code_is_not_believed() {
    let real = invitation(node("n1"));
    let imposter = Open::new(vec![invitation(node("n1"))]);
    let met = meet(&issuer(Authority::new("evil", HOUR).unwrap()), &imposter, &real);
    assert!(met.joined.unwrap_err().to_string().contains("different codes"));
    assert_eq!(imposter.roles(), [node("n1")]);
}

#[test]
fn malformed_join_request_closes_only_its_connection() {
    let authority = issuer(Authority::new("site", HOUR).unwrap());
    let right = invitation(node("n1"));
    let open = Open::new(vec![right.clone()]);
    let long = vec![b'x'; 400];
    for sent in [&b""[..], b"\n", b"accord join 1 node n1\n", b"accord join 1 node n1\nnot TLS\n", b"\xff\xfe\n", &long]
    {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        theirs.write_all(sent).unwrap();
        theirs.shutdown(Shutdown::Write).unwrap();
        assert!(accept(&ours, &open, &authority, &AtomicBool::new(false)).is_err(), "{sent:?}");
        drop(ours);
        let mut answer = Vec::new();
        let _ = theirs.read_to_end(&mut answer);
    }
    assert!(meet(&authority, &open, &right).joined.is_ok());
}

/// If the connection breaks after the certificate is issued, the register has no line and the invitation is open again.
#[test]
fn a_client_that_can_not_keep_its_certificate_may_come_again() {
    let folder = tempfile::tempdir().unwrap();
    Authority::new("site", HOUR).unwrap().write(folder.path()).unwrap();
    let authority = issuer(Authority::read(folder.path()).unwrap());
    let right = invitation(node("n1"));
    let open = Open::new(vec![right.clone()]);
    let (ours, theirs) = UnixStream::pair().unwrap();
    std::thread::scope(|scope| {
        let server = scope.spawn(|| {
            let has_code = AtomicBool::new(false);
            (accept(&ours, &open, &authority, &has_code), has_code.into_inner())
        });
        let full = || accord_types::Error::new(accord_types::ErrorCode::System, "the disk is full");
        let joined = join(&theirs, &right, |_| Err(full()));
        assert!(joined.unwrap_err().to_string().contains("the disk is full"));
        let _ = theirs.shutdown(Shutdown::Both);
        let (accepted, has_code) = server.join().unwrap();
        assert!(has_code && accepted.unwrap_err().to_string().contains("its line counts again"));
    });
    assert_eq!(open.roles(), [node("n1")]);
    assert!(issued(folder.path()).unwrap().is_empty());
    assert!(meet(&authority, &open, &right).joined.is_ok());
    assert!(open.roles().is_empty());
    assert_eq!(issued(folder.path()).unwrap().len(), 1);
}

/// The invitation stays open if the authority can't sign.
#[test]
fn a_failed_signature_leaves_the_invitation() {
    let mut authority = issuer(Authority::new("site", HOUR).unwrap());
    authority.lifetime = Duration::from_secs(1 << 60);
    let right = invitation(node("n1"));
    let open = Open::new(vec![right.clone()]);
    let met = meet(&authority, &open, &right);
    assert!(met.accepted.is_err() && met.joined.is_err() && met.has_code);
    assert_eq!(open.roles(), [node("n1")]);
}

#[test]
fn no_code_counts_after_the_end() {
    let authority = issuer(Authority::new("site", HOUR).unwrap());
    let right = invitation(node("n1"));
    let open = Open::new(vec![right.clone()]);
    open.end();
    let printed = meet(&authority, &open, &right).joined.unwrap_err().to_string();
    assert!(printed.contains("has no open invitation for agent n1"), "{printed}");
    assert_eq!(open.roles(), [node("n1")]);
}

#[test]
fn a_server_that_does_not_answer_has_not_refused() {
    let (ours, theirs) = UnixStream::pair().unwrap();
    drop(ours);
    let printed = join(&theirs, &invitation(node("n1")), |_| Ok(())).unwrap_err().to_string();
    assert!(printed.contains("does not answer") && !printed.contains("no open invitation"), "{printed}");
}

/// The address becomes a line of root's settings.
#[test]
fn an_address_of_the_coordinator_that_is_none_is_not_kept() {
    for address in ["server:7447\nLD_PRELOAD=/tmp/x", "$(id):7447", "server"] {
        let mut authority = issuer(Authority::new("site", HOUR).unwrap());
        authority.coordinator = address.to_owned();
        let right = invitation(node("n1"));
        let printed = meet(&authority, &Open::new(vec![right.clone()]), &right).joined.unwrap_err().to_string();
        assert!(printed.contains("is no address"), "{printed}");
    }
}
