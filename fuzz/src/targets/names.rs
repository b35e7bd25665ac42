//! Names in certificates, and texts of users: rules, addresses, amounts, and variables that launchers set.

use super::first;
use crate::{Memory, Target};
use accord_fabric::route::{GatewayName, TransportChoice};
use accord_fabric::transport::{ListenAddress, PeerAddress};
use accord_trust::identity::name_of;
use accord_trust::issue::Authority;
use accord_trust::join::Invitation;
use accord_trust::users::UserRules;
use accord_trust::validity::expiry;
use accord_trust::{PeerName, Role};
use accord_types::settings::{parse_bytes, parse_time};
use accord_types::{Rank, Result};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use std::time::Duration;

/// Certificates, and the names in them.
pub(super) const CERTIFICATES: Target = Target {
    name: "certificates",
    run: certificates,
    seeds: certificate_seeds,
    words: &["accord://", "/agent/", "/tenant/", "/ca", "*"],
    input_max: 2 << 10,
    memory: Memory { fixed: 8 << 10, per_byte: 16 },
    inputs: 20_000,
};

/// Texts of users and launchers.
pub(super) const SETTINGS: Target = Target {
    name: "settings",
    run: settings,
    seeds: setting_seeds,
    words: &[
        "SLURM_NODEID=",
        "SLURM_STEP_TASKS_PER_NODE=",
        "\nPMI_RANK=",
        "(x4294967295),1",
        "4294967295",
        "18446744073709551615",
        ",",
        "!",
        "=",
        "ms",
        "KiB",
        "mpi:",
        "[::1]:",
        "\n",
    ],
    input_max: 512,
    memory: Memory { fixed: 8 << 10, per_byte: 64 },
    inputs: 60_000,
};

/// The first byte selects a certificate, or only a name or an invitation.
fn certificates(mut bytes: &[u8]) {
    if first(&mut bytes) & 1 == 0 {
        let certificate = CertificateDer::from(bytes);
        let _ = expiry(&certificate);
        let name: Result<PeerName> = name_of(&certificate);
        if let Ok(name) = name {
            assert_eq!(name.to_string().parse(), Ok(name));
        }
        return;
    }
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Ok(name) = text.parse::<PeerName>() {
        assert_eq!(name.to_string(), text);
        assert!(text.bytes().all(|byte| byte.is_ascii_graphic()));
    } else if let Ok(invitation) = text.parse::<Invitation>() {
        assert_eq!(invitation.to_string().parse(), Ok(invitation));
    }
}

/// Keys are random and different each time; decoding and encoding preserves their bytes.
fn certificate_seeds() -> Vec<Vec<u8>> {
    let hour = Duration::from_secs(3600);
    let authority = Authority::new("c", hour).unwrap();
    let issued = authority.issue(Role::Agent("h1".to_owned()), hour).unwrap();
    let certificate = CertificateDer::from_pem_slice(issued.certificate.as_bytes()).unwrap();
    assert!(name_of(&certificate).is_ok());
    let mut seeds = vec![[&[0], certificate.as_ref()].concat()];
    seeds.extend(
        [
            "accord://c/agent/*",
            "accord://c1/tenant/eva@x",
            "accord://c/ca",
            "server.site:7449/node/n1/0123456789abcdefghjkmnpqrs",
        ]
        .map(|name| format!("\x01{name}").into()),
    );
    seeds
}

fn settings(mut bytes: &[u8]) {
    let what = first(&mut bytes);
    let text = String::from_utf8_lossy(bytes);
    match what % 6 {
        0 => {
            if let Ok(rules) = text.parse::<UserRules>() {
                for user in ["root", "bob", "1001", ""] {
                    assert!(
                        rules.account_of(user).is_none_or(|(account, _)| account == user || text.contains(account))
                    );
                }
            }
        }
        1 => drop((parse_bytes(&text), parse_time(&text))),
        2 => {
            if let Ok(TransportChoice::Mpi(name)) = text.parse() {
                assert_eq!(format!("mpi:{name}"), text);
                assert_eq!(name.as_str().parse::<GatewayName>(), Ok(name));
            }
        }
        3 => {
            if let Ok(address) = text.parse::<ListenAddress>() {
                assert_eq!(address.to_string().parse(), Ok(address));
            }
            let address = PeerAddress::new(&text);
            assert!(address.port().is_none() || address.as_str().contains(':'));
        }
        _ => {
            // Variables, one per line.
            let lookup = |name: &str| {
                let mut lines = text.lines().filter_map(|line| line.split_once('='));
                lines.find(|(other, _)| *other == name).map(|(_, value)| value.to_owned())
            };
            if let Some(Rank { rank, size, local_rank, local_size, .. }) = Rank::of_environment(lookup) {
                assert!(rank < size && (local_rank < local_size || local_size == 0));
            }
        }
    }
}

fn setting_seeds() -> Vec<Vec<u8>> {
    let slurm =
        "\x05SLURM_PROCID=5\nSLURM_NTASKS=7\nSLURM_LOCALID=0\nSLURM_NODEID=3\nSLURM_STEP_TASKS_PER_NODE=2(x3),1\n";
    let seeds = [
        "\0!bob, alice=grid, 1001=1001:100, root, *",
        "\x01512 KiB",
        "\x01500ms",
        "\x02mpi:accord-7.h1",
        "\x03[::1]:7700",
        "\x03h1.site:7700",
        slurm,
        "\x05PMI_RANK=3\nPMI_SIZE=4\nMPI_LOCALRANKID=3\nMPI_LOCALNRANKS=4\nPMI_JOBID=x\n",
    ];
    seeds.iter().map(|seed| seed.as_bytes().to_vec()).collect()
}
