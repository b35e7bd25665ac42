//! Peers are named by `PeerId`, and routes by `Route`: only transports know sockets and addresses.

use crate::sources::{code, is_tests, sources, without_text};

/// Names of sockets and their addresses.
const WORDS: &[&str] = &[
    "TcpStream",
    "TcpListener",
    "UnixStream",
    "UnixListener",
    "UnixDatagram",
    "UdpSocket",
    "SocketAddr",
    "IpAddr",
    "Ipv4Addr",
    "Ipv6Addr",
    "rustix::net",
    "sys::socket",
];

/// Files that may use these names, with reasons.
const MAY: &[(&str, &str)] = &[
    ("crates/fabric/src/transport/", "the drivers"),
    ("coordinator/src/background.rs", "the coordinator's port is given to it"),
    ("coordinator/src/config.rs", "the coordinator's port is a setting"),
    ("coordinator/src/process.rs", "opens the coordinator's port"),
    ("coordinator/src/service/page/connections.rs", "takes browsers' connections"),
    ("coordinator/src/service/page/guard.rs", "tells addresses from names in what browsers ask for"),
    ("coordinator/src/service/page/listener.rs", "opens the page's port"),
    ("coordinator/src/service/caller.rs", "says who is at the other end of a connection, and where"),
    ("coordinator/src/service/local_listener.rs", "the coordinator's socket on its own machine"),
    ("coordinator/src/service/listener.rs", "has connections show who they are, and tells gRPC's from programs'"),
    ("fuzz/src/targets/handed_over.rs", "gives descriptors by such sockets"),
    ("fuzz/src/targets/same_host.rs", "is at the other end of such sockets"),
    ("benches/src/askers/served.rs", "opens a port for the coordinator that it measures"),
    ("benches/src/scale.rs", "says where agents call from"),
    ("benches/src/tls.rs", "has a plain program of rustls's beside lanes"),
    ("benches/src/secure.rs", "is a plain program of rustls's beside programs"),
    ("benches/src/scrape.rs", "asks for metrics as a monitor does"),
    ("proto/src/channel.rs", "connects gRPC, through TLS or on one machine"),
    ("proto/src/stream.rs", "is such a connection"),
    ("proto/src/runtime.rs", "tries whether there are pairs of sockets, without which tokio panics"),
    ("crates/trust/src/munge.rs", "asks MUNGE's daemon"),
    ("coordinator/src/etcd/connector.rs", "connects to etcd"),
    ("coordinator/src/lookup.rs", "resolves the addresses of servers that the coordinator calls"),
    ("coordinator/src/service/api_server.rs", "asks Kubernetes' API server"),
    ("coordinator/src/service/registry.rs", "completes an agent's address by where it calls from"),
    ("crates/monitoring/src/", "answers scrapers and probes by HTTP"),
    ("crates/types/src/connection_slots.rs", "says what counts as one address"),
    ("crates/device/src/cpu/", "an owner and its worker process pass memory over a pair of sockets"),
    (
        "crates/device/src/ipc/socket.rs",
        "the driver's descriptors of memory go to another process over a socket that a transport made",
    ),
    ("cli/src/args.rs", "a user may say which of a host's addresses others use"),
    ("cli/src/command/setup/", "hands out certificates where there is no cluster yet"),
    ("cli/src/launch/site.rs", "finds the address of a host that others can reach"),
    ("cli/src/launch/hosts.rs", "gives addresses to the hosts of a local cluster"),
    ("cli/src/launch/cluster.rs", "likewise"),
];

#[test]
fn only_transports_name_sockets() {
    let (mut wrong, mut used) = (Vec::new(), vec![false; MAY.len()]);
    for path in sources().iter().filter(|path| !is_tests(path)) {
        let name = path.to_string_lossy();
        let named: Vec<_> = code(path)
            .lines()
            .map(without_text)
            .flat_map(|line| WORDS.iter().filter(move |word| line.contains(**word)))
            .copied()
            .collect();
        if named.is_empty() {
            continue;
        }
        match MAY.iter().position(|(may, _)| name.starts_with(may)) {
            Some(at) => used[at] = true,
            None => wrong.push(format!("{name}: {}", named[0])),
        }
    }
    let idle = MAY.iter().zip(used).filter(|(_, used)| !used);
    wrong.extend(idle.map(|((path, _), _)| format!("{path} names none any more: take it off MAY")));
    assert!(wrong.is_empty(), "{wrong:#?}");
}
