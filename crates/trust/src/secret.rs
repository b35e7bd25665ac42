//! Extracts the secret of a private key, which must be random.

use crate::der::{INTEGER, OCTET_STRING, SEQUENCE, element};
use rustls::pki_types::PrivateKeyDer;

/// Returns the secret number of an elliptic curve key. `None` for RSA: code that signs with an RSA key checks its
/// length and exponent, which make it weak.
pub(crate) fn of<'a>(key: &'a PrivateKeyDer<'_>) -> Option<&'a [u8]> {
    match key {
        PrivateKeyDer::Pkcs8(key) => of_pkcs8(key.secret_pkcs8_der()),
        PrivateKeyDer::Sec1(key) => of_sec1(key.secret_sec1_der()),
        _ => None,
    }
}

/// Reads RFC 5958: version, algorithm, and the key within an OCTET STRING. That key is an OCTET STRING for Ed25519 (RFC
/// 8410), else as in [`of_sec1`].
fn of_pkcs8(der: &[u8]) -> Option<&[u8]> {
    let (_version, rest) = element(INTEGER, element(SEQUENCE, der)?.0)?;
    let (_algorithm, rest) = element(SEQUENCE, rest)?;
    let (key, _) = element(OCTET_STRING, rest)?;
    element(OCTET_STRING, key).map(|(secret, _)| secret).or_else(|| of_sec1(key))
}

/// Reads RFC 5915: version, and the secret number.
fn of_sec1(der: &[u8]) -> Option<&[u8]> {
    let (_version, rest) = element(INTEGER, element(SEQUENCE, der)?.0)?;
    element(OCTET_STRING, rest).map(|(secret, _)| secret)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustls::pki_types::pem::PemObject;

    #[test]
    fn the_secret_number_is_found_in_keys_of_every_form() {
        for (pem, secret) in [
            // openssl genpkey -algorithm ed25519; -algorithm EC -pkeyopt ec_paramgen_curve:P-256; ecparam -genkey; genrsa
            (
                include_str!("../tests/data/ed25519.key"),
                Some("a7892e9ec89a1ef0cc943d168b5fce7157b8a526e5d96a8595d71e475f68f6ef"),
            ),
            (
                include_str!("../tests/data/p256-pkcs8.key"),
                Some("5d3791d03a23673d3012e33ef153904419e639a94660bbe6665a9bbd7afb1cf7"),
            ),
            (
                include_str!("../tests/data/p256-sec1.key"),
                Some("63f664da88870120ad5bb3f275a3470b10f91e4d28aad39080e49f2f018f2dbd"),
            ),
            (include_str!("../tests/data/rsa-1024.key"), None),
        ] {
            let key = PrivateKeyDer::from_pem_slice(pem.as_bytes()).unwrap();
            let hexadecimal = of(&key).map(|bytes| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>());
            assert_eq!(hexadecimal.as_deref(), secret);
        }
    }

    #[test]
    fn truncated_keys_are_refused() {
        let pem = include_str!("../tests/data/p256-pkcs8.key");
        let PrivateKeyDer::Pkcs8(whole) = PrivateKeyDer::from_pem_slice(pem.as_bytes()).unwrap() else {
            unreachable!()
        };
        let der = whole.secret_pkcs8_der();
        for len in 0..der.len() {
            assert_eq!(of_pkcs8(&der[..len]), None, "{len}");
        }
        for at in 0..der.len() {
            for value in [0, 0x7f, 0x81, 0x82, 0xff] {
                let mut changed = der.to_vec();
                changed[at] = value;
                let _ = of_pkcs8(&changed);
            }
        }
    }
}
