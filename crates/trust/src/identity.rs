//! A process's own certificate and key, and the authority that it believes.

use crate::name::{PeerName, Role};
use crate::provider::provider;
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
use webpki::EndEntityCert;

/// The authority's certificate in a folder, as Kubernetes names it too.
pub const CA_FILE: &str = "ca.crt";
/// The own certificate.
pub const CERTIFICATE_FILE: &str = "tls.crt";
/// Its key.
pub const KEY_FILE: &str = "tls.key";
/// Longest file that is read.
const FILE_MAX: u64 = 1 << 20;

/// Who this process is.
pub struct Identity {
    name: PeerName,
    pub(crate) chain: Vec<CertificateDer<'static>>,
    pub(crate) key: PrivateKeyDer<'static>,
    pub(crate) roots: Arc<RootCertStore>,
}

impl Identity {
    /// Reads `ca.crt`, `tls.crt` and `tls.key` of a folder.
    ///
    /// # Errors
    /// `acc_error_invalid_argument` if a file is missing, is none, does not fit the others, or if others may read the key.
    pub fn read(folder: &Path) -> Result<Self> {
        check_private(&folder.join(KEY_FILE))?;
        let read = |name| read(&folder.join(name));
        Self::from_pem(&read(CA_FILE)?, &read(CERTIFICATE_FILE)?, &read(KEY_FILE)?).map_err(|error| {
            let cause = format!("the certificates in {}: {}", folder.display(), error.cause());
            Error::new(error.code(), cause).remedy(error.remedy_text().unwrap_or(REMEDY).to_owned())
        })
    }

    /// The same from texts.
    ///
    /// # Errors
    /// As for [`Identity::read`].
    pub fn from_pem(ca: &[u8], certificate: &[u8], key: &[u8]) -> Result<Self> {
        let list = |what: &str, pem: &[u8]| -> Result<Vec<CertificateDer<'static>>> {
            let found = CertificateDer::pem_slice_iter(pem).collect::<Result<Vec<_>, _>>();
            let found = found.map_err(|error| bad(format!("{what} is no certificate: {error}")))?;
            if found.is_empty() { Err(bad(format!("{what} holds no certificate"))) } else { Ok(found) }
        };
        let key = PrivateKeyDer::from_pem_slice(key).map_err(|error| bad(format!("{KEY_FILE} is no key: {error}")))?;
        Self::new(&list(CA_FILE, ca)?, list(CERTIFICATE_FILE, certificate)?, key)
    }

    /// The same from parts: the authorities that are believed, the own certificate with what leads to its authority, its key.
    ///
    /// # Errors
    /// As for [`Identity::read`].
    pub fn new(
        authorities: &[CertificateDer<'static>],
        chain: Vec<CertificateDer<'static>>,
        key: PrivateKeyDer<'static>,
    ) -> Result<Self> {
        let mut roots = RootCertStore::empty();
        for authority in authorities {
            let added = roots.add(authority.clone());
            added.map_err(|error| bad(format!("{CA_FILE} is no authority's certificate: {error}")))?;
        }
        let own = chain.first().ok_or_else(|| bad(format!("{CERTIFICATE_FILE} holds no certificate")))?;
        let name = name_of(own)?;
        if name.role == Role::Authority {
            return Err(bad("the authority's own certificate is no process's"));
        }
        check_pair(own, &key)?;
        Ok(Self { name, chain, key, roots: Arc::new(roots) })
    }

    /// As which this process is known.
    pub fn name(&self) -> &PeerName {
        &self.name
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Identity({})", self.name)
    }
}

/// Whether key and certificate belong together: here, not at the first connection.
fn check_pair(own: &CertificateDer<'_>, key: &PrivateKeyDer<'_>) -> Result<()> {
    let unusable = |error: &dyn fmt::Display| bad(format!("{KEY_FILE} can't be used: {error}"));
    let signing = provider().key_provider.load_private_key(key.clone_key()).map_err(|error| unusable(&error))?;
    let holder = EndEntityCert::try_from(own).map_err(|error| unusable(&error))?;
    match signing.public_key() {
        Some(public) if public.as_ref() == holder.subject_public_key_info().as_ref() => Ok(()),
        _ => Err(bad(format!("{KEY_FILE} is not the key of {CERTIFICATE_FILE}"))
            .remedy("issue them anew, together (accord pki issue)")),
    }
}

/// The name in a certificate. Whether it is to be believed is another question.
///
/// # Errors
/// If it has none, or several.
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

/// The name of the peer at the other end of a connection; its certificate has been verified in the handshake.
///
/// # Errors
/// If it showed none.
pub fn name_of_peer(chain: Option<&[CertificateDer<'_>]>) -> Result<PeerName> {
    name_of(chain.and_then(<[_]>::first).ok_or_else(|| bad("it showed no certificate"))?)
}

/// Where a program's certificates are: the folder that is named, or `.config/accord/tls` at home.
///
/// # Errors
/// `acc_error_invalid_argument` if there is neither.
pub fn folder(named: Option<&str>, home: Option<&OsStr>) -> Result<PathBuf> {
    if let Some(named) = named {
        return Ok(named.into());
    }
    let usual = home.map(|home| Path::new(home).join(".config/accord/tls"));
    usual.filter(|folder| folder.is_dir()).ok_or_else(|| {
        bad("a coordinator is named, but no certificates: ACCORD_TLS is not set, and there is no ~/.config/accord/tls").remedy(REMEDY)
    })
}

/// Refuses a key that others may read: only its user, or a group that root has chosen.
///
/// # Errors
/// `acc_error_invalid_argument` if others may, or if it can't be told.
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
        .remedy(format!("chmod 600 {}; issue a new certificate if somebody may have read it", file.display())))
}

fn read(file: &Path) -> Result<Vec<u8>> {
    let size = std::fs::metadata(file).map_err(|error| unreadable(file, &error))?.len();
    if size > FILE_MAX {
        return Err(bad(format!("{} has {size} bytes; it is no certificate", file.display())));
    }
    std::fs::read(file).map_err(|error| unreadable(file, &error))
}

const REMEDY: &str = "name a folder with ca.crt, tls.crt and tls.key in ACCORD_TLS; accord pki issue makes one";

fn unreadable(file: &Path, error: &std::io::Error) -> Error {
    bad(format!("cannot read {}: {error}", file.display())).remedy(scarce::remedy(error).unwrap_or(REMEDY))
}

fn bad(cause: impl Into<String>) -> Error {
    Error::new(ErrorCode::InvalidArgument, cause)
}
