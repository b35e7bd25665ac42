//! A process's own certificate and key, and the authorities that it trusts.

use crate::attester::Attester;
use crate::name::{PeerName, Role};
use crate::provider::provider;
use crate::secret;
use crate::validity;
use accord_types::entropy::may_be_random;
use accord_types::{Error, ErrorCode, Result, scarce};
use rustix::process::geteuid;
use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::ffi::OsStr;
use std::fmt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use webpki::EndEntityCert;

/// File name of the authority's certificate, as in Kubernetes.
pub const CA_FILE: &str = "ca.crt";
/// File name of the process's own certificate.
pub const CERTIFICATE_FILE: &str = "tls.crt";
/// File name of its key.
pub const KEY_FILE: &str = "tls.key";
/// Longest file that is read, in bytes.
const FILE_MAX: u64 = 1 << 20;

/// The identity of this process.
pub struct Identity {
    pub(crate) own: IdentityProof,
    /// The cluster whose certificates are accepted; `None` accepts any cluster of the authority.
    pub(crate) cluster: Option<String>,
    pub(crate) roots: Arc<RootCertStore>,
}

/// The means by which a process proves its identity.
pub(crate) enum IdentityProof {
    /// By a certificate.
    Certificate(Certificate),
    /// By a credential of MUNGE or Kubernetes.
    Attested(Attester),
    /// By the operating system, which reports the user to a coordinator on the same machine.
    System,
}

/// A certificate, and its key.
pub(crate) struct Certificate {
    name: PeerName,
    pub(crate) chain: Vec<CertificateDer<'static>>,
    pub(crate) key: PrivateKeyDer<'static>,
}

impl Identity {
    /// Reads `ca.crt`, `tls.crt` and `tls.key` of a folder.
    ///
    /// # Errors
    /// Returns `acc_error_invalid_argument` if a file is missing or malformed, or does not fit the others. The same
    /// error is returned if other users may read the key or change a file, or if the key is not random.
    pub fn read(folder: &Path) -> Result<Self> {
        check_private(&folder.join(KEY_FILE))?;
        check_kept(folder)?;
        let read = |name| read(&folder.join(name));
        Self::from_pem(&read(CA_FILE)?, &read(CERTIFICATE_FILE)?, &read(KEY_FILE)?).map_err(|error| {
            let cause = format!("the certificates in {}: {}", folder.display(), error.cause());
            Error::new(error.code(), cause).remedy(error.remedy_text().unwrap_or(REMEDY).to_owned())
        })
    }

    /// Reads a user's folder like [`Identity::read`]. Where MUNGE or Kubernetes attests the users, the folder may hold
    /// `ca.crt` alone.
    ///
    /// # Errors
    /// Returns the errors of [`Identity::read`].
    pub fn of_user(folder: &Path, attester: &Attester) -> Result<Self> {
        let is_there = |name: &str| folder.join(name).symlink_metadata().is_ok();
        if is_there(CERTIFICATE_FILE) || is_there(KEY_FILE) || !is_there(CA_FILE) {
            return Self::read(folder);
        }
        check_kept(folder)?;
        let authorities = certificates(CA_FILE, &read(&folder.join(CA_FILE))?)?;
        // A certificate of an authority made by Accord names its cluster.
        let cluster = authorities.first().and_then(|authority| name_of(authority).ok()).map(|name| name.cluster);
        Ok(Self { own: IdentityProof::Attested(attester.clone()), cluster, roots: believed(&authorities)? })
    }

    /// Returns the identity of a process without a certificate, on the coordinator's machine.
    pub fn of_system() -> Self {
        Self { own: IdentityProof::System, cluster: None, roots: Arc::new(RootCertStore::empty()) }
    }

    /// Creates an identity from PEM texts.
    ///
    /// # Errors
    /// Returns the errors of [`Identity::read`].
    pub fn from_pem(ca: &[u8], certificate: &[u8], key: &[u8]) -> Result<Self> {
        let key = PrivateKeyDer::from_pem_slice(key).map_err(|error| bad(format!("{KEY_FILE} is no key: {error}")))?;
        Self::new(&certificates(CA_FILE, ca)?, certificates(CERTIFICATE_FILE, certificate)?, key)
    }

    /// Creates an identity from the trusted authorities, the own certificate chain and its key.
    ///
    /// # Errors
    /// Returns the errors of [`Identity::read`].
    pub fn new(
        authorities: &[CertificateDer<'static>],
        chain: Vec<CertificateDer<'static>>,
        key: PrivateKeyDer<'static>,
    ) -> Result<Self> {
        let roots = believed(authorities)?;
        let own = chain.first().ok_or_else(|| bad(format!("{CERTIFICATE_FILE} holds no certificate")))?;
        let name = name_of(own)?;
        if name.role == Role::Authority {
            return Err(bad("the authority's own certificate is no process's"));
        }
        check_pair(own, &key)?;
        let cluster = Some(name.cluster.clone());
        Ok(Self { own: IdentityProof::Certificate(Certificate { name, chain, key }), cluster, roots })
    }

    /// Returns the name in this process's certificate.
    ///
    /// # Errors
    /// Returns `acc_error_invalid_argument` if the process has no certificate.
    pub fn name(&self) -> Result<&PeerName> {
        self.certificate().map(|certificate| &certificate.name)
    }

    pub(crate) fn certificate(&self) -> Result<&Certificate> {
        match &self.own {
            IdentityProof::Certificate(certificate) => Ok(certificate),
            IdentityProof::Attested(_) | IdentityProof::System => Err(bad("there is no certificate").remedy(REMEDY)),
        }
    }

    /// Returns when this process's certificate expires, counted from 1970; `None` if there is none.
    pub fn expiry(&self) -> Option<Duration> {
        validity::expiry(self.certificate().ok()?.chain.first()?)
    }

    /// Returns the source of this process's credentials; `None` if it has a certificate or the operating system attests
    /// its user.
    pub fn attester(&self) -> Option<&Attester> {
        match &self.own {
            IdentityProof::Attested(attester) => Some(attester),
            IdentityProof::Certificate(_) | IdentityProof::System => None,
        }
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.own {
            IdentityProof::Certificate(certificate) => write!(f, "Identity({})", certificate.name),
            IdentityProof::Attested(attester) => write!(f, "Identity({attester:?})"),
            IdentityProof::System => f.write_str("Identity(the system)"),
        }
    }
}

fn certificates(what: &str, pem: &[u8]) -> Result<Vec<CertificateDer<'static>>> {
    let found = CertificateDer::pem_slice_iter(pem).collect::<Result<Vec<_>, _>>();
    let found = found.map_err(|error| bad(format!("{what} is no certificate: {error}")))?;
    if found.is_empty() { Err(bad(format!("{what} holds no certificate"))) } else { Ok(found) }
}

fn believed(authorities: &[CertificateDer<'static>]) -> Result<Arc<RootCertStore>> {
    let mut roots = RootCertStore::empty();
    for authority in authorities {
        let added = roots.add(authority.clone());
        added.map_err(|error| bad(format!("{CA_FILE} is no authority's certificate: {error}")))?;
    }
    Ok(Arc::new(roots))
}

/// Refuses a key that does not belong to the certificate, before the first connection would fail.
fn check_pair(own: &CertificateDer<'_>, key: &PrivateKeyDer<'_>) -> Result<()> {
    let unusable = |error: &dyn fmt::Display| bad(format!("{KEY_FILE} can't be used: {error}"));
    let signing = provider().key_provider.load_private_key(key.clone_key()).map_err(|error| unusable(&error))?;
    let holder = EndEntityCert::try_from(own).map_err(|error| unusable(&error))?;
    match signing.public_key() {
        Some(public) if public.as_ref() == holder.subject_public_key_info().as_ref() => check_drawn(KEY_FILE, key),
        _ => Err(bad(format!("{KEY_FILE} is not the key of {CERTIFICATE_FILE}"))
            .remedy("issue them anew, together (accord pki issue)")),
    }
}

/// Refuses a private key that is not random, because others can guess it.
///
/// # Errors
/// Returns `acc_error_invalid_argument` if the secret repeats itself, counts up, or is text.
pub fn check_drawn(name: &str, key: &PrivateKeyDer<'_>) -> Result<()> {
    if secret::of(key).is_none_or(may_be_random) {
        return Ok(());
    }
    Err(bad(format!("{name} is no key that was drawn by chance: it repeats itself, counts, or is text"))
        .remedy("issue a new one, and its certificate (accord pki issue)"))
}

/// Returns the name in a certificate, without verifying the certificate.
///
/// # Errors
/// Returns an error if the certificate has no name of Accord's, or several.
pub fn name_of(certificate: &CertificateDer<'_>) -> Result<PeerName> {
    let parsed = EndEntityCert::try_from(certificate)
        .map_err(|error| bad(format!("a certificate that can't be read: {error}")))?;
    let names: Vec<PeerName> = parsed.valid_uri_names().filter_map(|name| name.parse().ok()).collect();
    match <[PeerName; 1]>::try_from(names) {
        Ok([name]) => Ok(name),
        Err(names) if names.is_empty() => Err(bad("the certificate names no role in an Accord cluster")),
        Err(_) => Err(bad("the certificate names several roles")),
    }
}

/// Returns the name in the first certificate of a file, and its expiry, counted from 1970.
///
/// # Errors
/// Returns `acc_error_invalid_argument` if the file has no certificate with a name of Accord's.
pub fn holder_of(file: &Path) -> Result<(PeerName, Duration)> {
    let in_file = |why: String| bad(format!("{}: {why}", file.display()));
    let pem = read_all(file)?;
    let certificate = CertificateDer::from_pem_slice(&pem).map_err(|error| in_file(error.to_string()))?;
    let name = name_of(&certificate).map_err(|error| in_file(error.cause().to_owned()))?;
    let expiry = validity::expiry(&certificate).ok_or_else(|| in_file("its validity can't be read".to_owned()))?;
    Ok((name, expiry))
}

/// Returns the name of a connection's peer from the chain that the handshake has verified.
///
/// # Errors
/// Returns an error if the peer presented no certificate.
pub fn name_of_peer(chain: Option<&[CertificateDer<'_>]>) -> Result<PeerName> {
    name_of(chain.and_then(<[_]>::first).ok_or_else(|| bad("it showed no certificate"))?)
}

/// Returns the folder of a program's certificates: `named`, or `.config/accord/tls` in the home folder.
///
/// # Errors
/// Returns `acc_error_invalid_argument` if neither is known.
pub fn folder(named: Option<&str>, home: Option<&OsStr>) -> Result<PathBuf> {
    if let Some(named) = named {
        return Ok(named.into());
    }
    let usual = home.map(|home| Path::new(home).join(".config/accord/tls"));
    usual.filter(|folder| folder.is_dir()).ok_or_else(|| {
        bad("a coordinator is named, but no certificates: ACCORD_TLS is not set, and there is no ~/.config/accord/tls").remedy(REMEDY)
    })
}

/// Refuses a key file that is readable by more than its owner, except by a group that root has chosen.
///
/// # Errors
/// Returns `acc_error_invalid_argument` if other users may read or change the file, or its metadata can't be read.
pub fn check_private(file: &Path) -> Result<()> {
    let metadata = std::fs::metadata(file).map_err(|error| unreadable(file, &error))?;
    let own = geteuid().as_raw();
    if own != 0 && ![0, own].contains(&metadata.uid()) {
        return Err(bad(format!("{} belongs to user {}, who can change it", file.display(), metadata.uid()))
            .remedy("use a copy that belongs to you"));
    }
    let too_many = if metadata.uid() == 0 { 0o037 } else { 0o077 };
    if metadata.mode() & too_many == 0 {
        return Ok(());
    }
    let cause = format!("others than its user may read {} (mode {:o})", file.display(), metadata.mode() & 0o777);
    Err(bad(cause)
        .remedy(format!("chmod 600 {}; issue a new certificate if another user may have read it", file.display())))
}

/// Write access of a group or of all users.
const OTHERS_WRITE: u32 = 0o022;
/// The sticky bit: only owners may remove or replace files of a folder.
const STICKY: u32 = 0o1000;

/// Refuses a folder of certificates that other users may change. A user who can replace the authority can impersonate
/// the coordinator.
///
/// # Errors
/// Returns `acc_error_invalid_argument` if other users may change the folder or a file, or metadata can't be read.
fn check_kept(folder: &Path) -> Result<()> {
    let own = geteuid().as_raw();
    let files = [CA_FILE, CERTIFICATE_FILE].map(|name| folder.join(name));
    for at in [folder.to_owned()].iter().chain(files.iter().filter(|file| file.symlink_metadata().is_ok())) {
        let metadata = std::fs::metadata(at).map_err(|error| unreadable(at, &error))?;
        if own != 0 && ![0, own].contains(&metadata.uid()) {
            return Err(bad(format!("{} belongs to user {}, who can change it", at.display(), metadata.uid()))
                .remedy("use a copy that belongs to you"));
        }
        let kept = metadata.is_dir() && metadata.mode() & STICKY != 0;
        if metadata.mode() & OTHERS_WRITE != 0 && !kept {
            let cause =
                format!("others than its user may change {} (mode {:o})", at.display(), metadata.mode() & 0o7777);
            return Err(
                bad(cause).remedy(format!("chmod go-w {}; look whether its certificates are yours", at.display()))
            );
        }
    }
    Ok(())
}

/// Reads a file. Certificates are public, but some tools write the key into the same file; such a file must be private.
fn read(file: &Path) -> Result<Vec<u8>> {
    const KEY_WITHIN: &[u8] = b"PRIVATE KEY-----";
    let bytes = read_all(file)?;
    if bytes.windows(KEY_WITHIN.len()).any(|window| window == KEY_WITHIN) {
        check_private(file)?;
    }
    Ok(bytes)
}

fn read_all(file: &Path) -> Result<Vec<u8>> {
    let size = std::fs::metadata(file).map_err(|error| unreadable(file, &error))?.len();
    if size > FILE_MAX {
        return Err(bad(format!("{} has {size} bytes; it is no certificate", file.display())));
    }
    std::fs::read(file).map_err(|error| unreadable(file, &error))
}

const REMEDY: &str = "name a folder with ca.crt, tls.crt and tls.key in ACCORD_TLS; accord pki issue makes one";

fn unreadable(file: &Path, error: &std::io::Error) -> Error {
    if error.kind() == std::io::ErrorKind::PermissionDenied {
        let user = geteuid().as_raw();
        return bad(format!("user {user}, whom this process runs as, may not read {}", file.display())).remedy(format!(
            "name certificates that user {user} may read in ACCORD_TLS; a program that changes its user calls acc_init before"
        ));
    }
    bad(format!("cannot read {}: {error}", file.display())).remedy(scarce::remedy(error).unwrap_or(REMEDY))
}

fn bad(cause: impl Into<String>) -> Error {
    Error::new(ErrorCode::InvalidArgument, cause)
}
