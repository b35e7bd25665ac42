//! Issues certificates, for sites without an authority of their own and for clusters that live as long as a job.

pub use crate::certificate_files::{CA_KEY_FILE, Issued, write_folder};
use crate::certificate_files::{files_of, new_files};
use crate::identity::{CA_FILE, CERTIFICATE_FILE, Identity, check_drawn, check_private, name_of};
use crate::name::{PeerName, Role, word};
use crate::register;
use crate::validity::expiry;
use accord_types::{Error, ErrorCode, Result};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
    PKCS_ECDSA_P256_SHA256, PublicKeyData, SanType, SerialNumber, SignatureAlgorithm,
};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The time by which a certificate's validity begins early: a clock may be wrong or be set back, which would lock the
/// holder out.
const CLOCKS_DIFFER: Duration = Duration::from_secs(24 * 3600);

/// Bytes of a public key: a point of the curve P-256 (SEC 1, uncompressed).
pub const PUBLIC_KEY_LEN: usize = 65;

/// Signs certificates.
pub struct Authority {
    cluster: String,
    /// The authority's folder, where issued certificates are registered; `None` if the authority exists in memory only.
    folder: Option<PathBuf>,
    certificate: String,
    key: String,
    issuer: Issuer<'static, KeyPair>,
}

/// A signed certificate. It is registered once the holder has stored it.
pub struct Signed {
    /// PEM.
    pub certificate: String,
    name: PeerName,
    expiry: Duration,
}

impl Authority {
    /// Creates an authority for a cluster with this name.
    ///
    /// # Errors
    /// Returns `acc_error_invalid_argument` if the name is malformed, `acc_error_system` if there are no random
    /// numbers.
    pub fn new(cluster: &str, lifetime: Duration) -> Result<Self> {
        let cluster = word(cluster).map_err(invalid)?;
        let name = PeerName { cluster: cluster.clone(), role: Role::Authority };
        let params = authority(&name, lifetime)?;
        let pair = KeyPair::generate().map_err(failed)?;
        let certificate = params.self_signed(&pair).map_err(failed)?.pem();
        let key = pair.serialize_pem();
        Ok(Self { cluster, folder: None, certificate, key, issuer: Issuer::new(params, pair) })
    }

    /// Reads an authority from its folder.
    ///
    /// # Errors
    /// Returns `acc_error_invalid_argument` if the folder has no authority, or other users may read its key.
    pub fn read(folder: &Path) -> Result<Self> {
        let file = |name: &str| {
            let path = folder.join(name);
            std::fs::read_to_string(&path).map_err(|error| {
                invalid(format!("cannot read {}: {error}", path.display()))
                    .remedy("make an authority first: accord pki init")
            })
        };
        let (certificate, key) = (file(CA_FILE)?, file(CA_KEY_FILE)?);
        check_private(&folder.join(CA_KEY_FILE))?;
        let unusable = |error: String| invalid(format!("the authority in {}: {error}", folder.display()));
        let der =
            CertificateDer::from_pem_slice(certificate.as_bytes()).map_err(|error| unusable(error.to_string()))?;
        let name = name_of(&der).map_err(|error| unusable(error.cause().to_owned()))?;
        if name.role != Role::Authority {
            return Err(unusable(format!("{CA_FILE} is a certificate of {}", name.role)));
        }
        let pair = KeyPair::from_pem(&key).map_err(|error| unusable(error.to_string()))?;
        let secret = PrivateKeyDer::from_pem_slice(key.as_bytes()).map_err(|error| unusable(error.to_string()))?;
        check_drawn(CA_KEY_FILE, &secret)?;
        let holder = webpki::EndEntityCert::try_from(&der).map_err(|error| unusable(error.to_string()))?;
        if holder.subject_public_key_info().as_ref() != pair.subject_public_key_info() {
            return Err(unusable(format!("{CA_KEY_FILE} is not the key of {CA_FILE}")));
        }
        // A signature needs only the authority's name and key, so the other parameters need not match its certificate.
        let issuer = Issuer::new(authority(&name, Duration::ZERO)?, pair);
        Ok(Self { cluster: name.cluster, folder: Some(folder.to_owned()), certificate, key, issuer })
    }

    /// Writes the authority into a new or empty folder.
    ///
    /// # Errors
    /// Returns `acc_error_invalid_argument` if a file exists already, `acc_error_system` if the system refuses to
    /// write.
    pub fn write(&self, folder: &Path) -> Result<()> {
        new_files(folder, &[(CA_KEY_FILE, &self.key), (CA_FILE, &self.certificate)])
    }

    /// Returns the name of the authority's cluster.
    pub fn cluster(&self) -> &str {
        &self.cluster
    }

    /// Returns the authority's certificate, PEM.
    pub fn certificate(&self) -> &str {
        &self.certificate
    }

    /// Issues a certificate that is valid from now for `lifetime`, and does not register it.
    ///
    /// # Errors
    /// Returns `acc_error_invalid_argument` if the role's name is malformed, `acc_error_system` if there are no random
    /// numbers.
    pub fn issue(&self, role: Role, lifetime: Duration) -> Result<Issued> {
        let pair = KeyPair::generate().map_err(failed)?;
        let certificate = self.certify(role, lifetime, &pair)?.certificate;
        Ok(Issued { certificate, key: pair.serialize_pem() })
    }

    /// Issues a certificate, passes it to `keep`, and registers it if `keep` succeeds.
    ///
    /// # Errors
    /// Returns the errors of [`Authority::issue`], [`Authority::register`] and `keep`.
    pub fn issue_kept(&self, role: Role, lifetime: Duration, keep: impl FnOnce(&Issued) -> Result<()>) -> Result<()> {
        let pair = KeyPair::generate().map_err(failed)?;
        let signed = self.certify(role, lifetime, &pair)?;
        keep(&Issued { certificate: signed.certificate.clone(), key: pair.serialize_pem() })?;
        self.register(&signed)
    }

    /// Signs a certificate for the holder of the private key that belongs to the public key `key`.
    ///
    /// # Errors
    /// Returns the errors of [`Authority::issue`].
    pub fn sign(&self, role: Role, lifetime: Duration, key: [u8; PUBLIC_KEY_LEN]) -> Result<Signed> {
        self.certify(role, lifetime, &Point(key))
    }

    /// Registers a certificate that its holder has stored. An authority without a folder has no register.
    ///
    /// # Errors
    /// Returns `acc_error_system` if the register can't be written.
    pub fn register(&self, signed: &Signed) -> Result<()> {
        self.folder.as_ref().map_or(Ok(()), |folder| register::add(folder, &signed.name, signed.expiry))
    }

    fn certify(&self, role: Role, lifetime: Duration, key: &impl PublicKeyData) -> Result<Signed> {
        let name = PeerName { cluster: self.cluster.clone(), role };
        if name.role == Role::Authority || name.to_string().parse::<PeerName>().as_ref() != Ok(&name) {
            return Err(invalid(format!("{name} can't be a certificate's name"))
                .remedy("use letters, digits and . _ - @ in names"));
        }
        let mut params = params(&name, lifetime)?;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth, ExtendedKeyUsagePurpose::ServerAuth];
        params.use_authority_key_identifier_extension = true;
        let certificate = params.signed_by(key, &self.issuer).map_err(failed)?;
        let expiry = expiry(certificate.der()).unwrap_or_default();
        Ok(Signed { certificate: certificate.pem(), name, expiry })
    }

    /// Issues a certificate for use within this process.
    ///
    /// # Errors
    /// Returns the errors of [`Authority::issue`].
    pub fn identity(&self, role: Role, lifetime: Duration) -> Result<Identity> {
        let issued = self.issue(role, lifetime)?;
        Identity::from_pem(self.certificate.as_bytes(), issued.certificate.as_bytes(), issued.key.as_bytes())
    }

    /// Issues a certificate into a new or empty folder.
    ///
    /// # Errors
    /// Returns the errors of [`Authority::issue`] and [`Authority::write`].
    pub fn issue_into(&self, folder: &Path, role: Role, lifetime: Duration) -> Result<()> {
        self.issue_kept(role, lifetime, |issued| new_files(folder, &files_of(&self.certificate, issued)))
    }

    /// Issues a new certificate with a new key, for the holder of the folder's certificate. Processes that use it read
    /// it themselves.
    ///
    /// # Errors
    /// Returns `acc_error_invalid_argument` if the folder holds no certificate of this cluster, and the errors of
    /// [`Authority::issue_into`].
    pub fn renew(&self, folder: &Path, lifetime: Duration) -> Result<PeerName> {
        let file = folder.join(CERTIFICATE_FILE);
        let unusable =
            |why: String| invalid(format!("{}: {why}", file.display())).remedy("make a new one: accord pki issue");
        let pem = std::fs::read(&file).map_err(|error| unusable(error.to_string()))?;
        let der = CertificateDer::from_pem_slice(&pem).map_err(|error| unusable(error.to_string()))?;
        let name = name_of(&der).map_err(|error| unusable(error.cause().to_owned()))?;
        if name.cluster != self.cluster {
            return Err(unusable(format!("it is of the cluster {}, not {}", name.cluster, self.cluster)));
        }
        // A process that reads between the two writes sees that key and certificate differ, and keeps its identity.
        self.issue_kept(name.role.clone(), lifetime, |issued| write_folder(folder, &self.certificate, issued))?;
        Ok(name)
    }
}

/// A public key whose private half is elsewhere.
struct Point([u8; PUBLIC_KEY_LEN]);

impl PublicKeyData for Point {
    fn der_bytes(&self) -> &[u8] {
        &self.0
    }

    fn algorithm(&self) -> &'static SignatureAlgorithm {
        &PKCS_ECDSA_P256_SHA256
    }
}

fn authority(name: &PeerName, lifetime: Duration) -> Result<CertificateParams> {
    let mut params = params(name, lifetime)?;
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    Ok(params)
}

fn params(name: &PeerName, lifetime: Duration) -> Result<CertificateParams> {
    let mut params = CertificateParams::default();
    let uri = name.to_string().try_into().map_err(failed)?;
    params.subject_alt_names = vec![SanType::URI(uri)];
    params.distinguished_name.remove(DnType::CommonName);
    params.distinguished_name.push(DnType::OrganizationName, name.cluster.as_str());
    params.distinguished_name.push(DnType::CommonName, name.role.to_string());
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let epoch = rcgen::date_time_ymd(1970, 1, 1);
    params.not_before = epoch + now.saturating_sub(CLOCKS_DIFFER);
    params.not_after = epoch
        .checked_add((now + lifetime).try_into().map_err(|_| invalid("a lifetime beyond all calendars"))?)
        .ok_or_else(|| invalid("a lifetime beyond all calendars"))?;
    let serial = now.as_nanos().to_be_bytes();
    params.serial_number = Some(SerialNumber::from_slice(&serial[4..]));
    Ok(params)
}

fn invalid(cause: impl Into<String>) -> Error {
    Error::new(ErrorCode::InvalidArgument, cause)
}

fn failed(error: rcgen::Error) -> Error {
    Error::new(ErrorCode::System, format!("cannot make a certificate: {error}"))
}
