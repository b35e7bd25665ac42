//! Command line flags and environment variables.

use crate::etcd::EtcdTls;
use crate::service::{AnonymousAccess, ApiServer, page_url};
use crate::store::StateLocation;
use accord_trust::users::UserRules;
use accord_types::settings::{parse_bytes, parse_time};
use clap::builder::{OsStringValueParser, TypedValueParser};
use clap::{Parser, ValueEnum};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// Accord's coordinator: registers node agents, numbers devices, opens sessions.
///
/// One leads per cluster; of several with one state in etcd the others follow. It is never on the path of a launch or a copy: programs continue
/// while it is down, and agents register again when it is back.
#[derive(Clone, Debug, Parser)]
#[command(name = "accord-coordinator", version = accord_types::build_version!().text())]
pub struct Config {
    /// Address and port to listen on; port 0 chooses a free one, which is printed.
    #[arg(long, env = "ACCORD_LISTEN", value_name = "ADDR:PORT", default_value = "127.0.0.1:7447")]
    pub listen: SocketAddr,

    /// Folder with the coordinator's certificates: ca.crt, tls.crt and tls.key. Make one with: accord pki issue AUTHORITY coordinator.
    /// Without it the coordinator listens on --socket only.
    #[arg(long, env = "ACCORD_TLS", value_name = "FOLDER", required_unless_present = "socket")]
    pub tls: Option<PathBuf>,

    /// UNIX socket for programs, tools and agents of this machine. The kernel identifies their users, so that they need no certificates
    /// (ACCORD_COORDINATOR=unix:PATH). Only the socket's owner may be able to change its folder.
    #[arg(long, env = "ACCORD_SOCKET", value_name = "PATH")]
    pub socket: Option<PathBuf>,

    /// Accept users without a certificate by their MUNGE credentials. The daemon listens at this socket: /run/munge/munge.socket.2
    #[arg(long, env = "ACCORD_MUNGE", value_name = "PATH")]
    pub munge: Option<PathBuf>,

    /// Identify pods without a certificate by their service account tokens of audience accord, which this Kubernetes API server reviews:
    /// its address, or cluster for the one of the coordinator's own pod.
    #[arg(long, env = "ACCORD_TOKEN_REVIEW", value_name = "HOST:PORT", value_parser = api_server)]
    pub token_review: Option<String>,

    /// Folder with token and ca.crt of the service account that asks that API server; it needs the ClusterRole system:auth-delegator.
    #[arg(
        long,
        env = "ACCORD_TOKEN_REVIEW_ACCOUNT",
        value_name = "FOLDER",
        default_value = "/var/run/secrets/kubernetes.io/serviceaccount"
    )]
    pub token_review_account: PathBuf,

    /// Users to accept by the identification of the kernel, MUNGE or Kubernetes, and their names in the cluster, as rules of which the first
    /// match counts: NAME as itself, NAME=USER as another one, !NAME not at all, * for all.
    #[arg(long, env = "ACCORD_USERS", value_name = "RULES", default_value = "*")]
    pub users: UserRules,

    /// File that keeps the coordinator's state over a restart: waiting and running jobs, history, usage, the policy and drains. It is created
    /// if it is absent; its folder must be on a disk of this machine. Or etcd://HOST:PORT[,HOST:PORT...][/PREFIX], where several coordinators
    /// keep one state and the others take over from one that is lost [default: none; a restart loses this state].
    #[arg(long, env = "ACCORD_STATE", value_name = "FILE|URL", value_parser = OsStringValueParser::new().try_map(StateLocation::read))]
    pub state: Option<StateLocation>,

    /// File with the authority of etcd's certificates, in PEM: the connection to etcd is encrypted [default: none; in clear].
    #[arg(long, env = "ACCORD_ETCD_CA", value_name = "FILE")]
    pub etcd_ca: Option<PathBuf>,

    /// File with the coordinator's certificate for etcd, in PEM, if etcd demands one.
    #[arg(long, env = "ACCORD_ETCD_CERT", value_name = "FILE", requires_all = ["etcd_ca", "etcd_key"])]
    pub etcd_cert: Option<PathBuf>,

    /// File with the key of that certificate, in PEM.
    #[arg(long, env = "ACCORD_ETCD_KEY", value_name = "FILE", requires = "etcd_cert")]
    pub etcd_key: Option<PathBuf>,

    /// Address of this coordinator that callers of the others are told while it leads, with --state etcd://
    /// [default: that of --listen, or this machine's name where it listens on all addresses].
    #[arg(long, env = "ACCORD_ADVERTISE", value_name = "HOST:PORT")]
    pub advertise: Option<String>,

    /// The site's policy, in TOML, with which the coordinator starts. accord policy apply replaces it until the next start
    /// [default: one account for all users, without limits]. With --state it takes effect only if it has changed since the last start.
    #[arg(long, env = "ACCORD_POLICY", value_name = "FILE")]
    pub policy: Option<PathBuf>,

    /// Most memory that one session may hold on each device, with K, M, G or T, unless the policy sets it [default: no limit].
    #[arg(long, env = "ACCORD_MEMORY_QUOTA", value_name = "BYTES", value_parser = bytes)]
    pub memory_quota: Option<u64>,

    /// Most streams that one session may use on each device, unless the policy sets it; further queues share them [default: 32].
    #[arg(long, env = "ACCORD_STREAM_QUOTA", value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=32))]
    pub stream_quota: Option<u32>,

    /// Most sessions of one user at a time.
    #[arg(long, env = "ACCORD_SESSION_QUOTA", value_name = "COUNT", default_value_t = 4_096, value_parser = clap::value_parser!(u32).range(1..))]
    pub session_quota: u32,

    /// Time limit of a session, with s, m, h or d, unless the policy sets it [default: no limit].
    #[arg(long, env = "ACCORD_SESSION_TIME", value_name = "TIME", value_parser = time)]
    pub session_time: Option<Duration>,

    /// Silence of an agent after which its node counts as lost, with s, m or h; six times as long while most agents are silent.
    #[arg(long, env = "ACCORD_LOST_AFTER", value_name = "TIME", default_value = "10s", value_parser = time)]
    pub lost_after: Duration,

    /// Silence of a program's machine, or of the path to it, after which the session ends, with s, m or h. A program that is stopped or in a
    /// debugger is not silent.
    #[arg(long, env = "ACCORD_PROGRAM_LOST_AFTER", value_name = "TIME", default_value = "30s", value_parser = time)]
    pub program_lost_after: Duration,

    /// Send commands and data of sessions between machines in clear. An attacker on the network can then read them, and run
    /// code as the sessions' users by changing them. Agents need the same option.
    #[arg(long)]
    pub insecure_plain_tcp: bool,

    /// Address and port for metrics and health over HTTP (/metrics, /healthz, /readyz), without authentication; port 0 chooses a free
    /// one, which is printed [default: none].
    #[arg(long, env = "ACCORD_METRICS_LISTEN", value_name = "ADDR:PORT")]
    pub metrics_listen: Option<String>,

    /// Address and port for the web page of the cluster: in clear on a loopback address, and elsewhere by TLS with the coordinator's certificate.
    /// Port 0 chooses a free one, which is printed [default: none].
    #[arg(long, env = "ACCORD_PAGE_LISTEN", value_name = "ADDR:PORT")]
    pub page_listen: Option<SocketAddr>,

    /// What the page shows to visitors without a code of accord page: public shows the cluster in numbers, users shows how to get a code, off
    /// turns the page off.
    #[arg(
        long,
        env = "ACCORD_PAGE",
        value_name = "public|users|off",
        value_enum,
        hide_possible_values = true,
        default_value = "users"
    )]
    pub page: PageAccess,

    /// Address of the page as browsers have it, if a proxy or a name is in between [default: --page-listen, or the machine's name].
    #[arg(long, env = "ACCORD_PAGE_URL", value_name = "URL", value_parser = page_url)]
    pub page_url: Option<String>,

    /// Level of messages on standard error: off, error, warn, info, debug.
    #[arg(long, env = "ACCORD_LOG", value_name = "LEVEL", default_value = "warn")]
    pub log: tracing::level_filters::LevelFilter,

    /// Stop when standard input ends, as it does when the process that started this one dies.
    #[arg(long)]
    pub stop_on_stdin_eof: bool,
}

/// The visitors of the page.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum PageAccess {
    /// All, of whom strangers see numbers without names.
    Public,
    /// Users and administrators.
    Users,
    /// None: there is no page.
    Off,
}

impl Config {
    /// Returns the files for TLS with etcd, if it is encrypted.
    pub fn etcd_tls(&self) -> Option<EtcdTls> {
        let own = self.etcd_cert.clone().zip(self.etcd_key.clone());
        self.etcd_ca.clone().map(|authority| EtcdTls { authority, own })
    }

    /// Returns where the page listens and what strangers see there, if there is to be a page.
    pub fn page(&self) -> Option<(SocketAddr, AnonymousAccess)> {
        let anonymous_access = match self.page {
            PageAccess::Public => AnonymousAccess::Counts,
            PageAccess::Users => AnonymousAccess::Nothing,
            PageAccess::Off => return None,
        };
        self.page_listen.map(|address| (address, anonymous_access))
    }

    /// Returns the API server that reviews tokens, if one is to.
    pub fn api_server(&self) -> Option<ApiServer> {
        let account = self.token_review_account.clone();
        self.token_review.clone().map(|address| ApiServer { address, account })
    }
}

/// Reads the address of an API server. `cluster` stands for that of the pod's own cluster, which Kubernetes names in
/// variables.
fn api_server(text: &str) -> Result<String, String> {
    api_server_of(text, |name| std::env::var(name).ok())
}

fn api_server_of(text: &str, variable: impl Fn(&str) -> Option<String>) -> Result<String, String> {
    if text == "cluster" {
        let (host, port) = (variable("KUBERNETES_SERVICE_HOST"), variable("KUBERNETES_SERVICE_PORT"));
        let (host, port) =
            host.zip(port).ok_or("this is no pod: KUBERNETES_SERVICE_HOST is not set; write HOST:PORT")?;
        return Ok(if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") });
    }
    match text.rsplit_once(':') {
        Some((host, port)) if !host.is_empty() && !host.contains('/') && port.parse::<u16>().is_ok() => {
            Ok(text.to_owned())
        }
        _ => Err("HOST:PORT, or cluster, is needed".to_owned()),
    }
}

fn time(text: &str) -> Result<Duration, String> {
    parse_time(text)
        .filter(|time| !time.is_zero())
        .ok_or_else(|| "a time such as 90s, 30m, 8h or 2d is needed".to_owned())
}

fn bytes(text: &str) -> Result<u64, String> {
    parse_bytes(text)
        .filter(|bytes| *bytes > 0)
        .ok_or_else(|| "a number of bytes such as 512M or 2G is needed".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_api_server_is_an_address_or_that_of_the_pods_cluster() {
        let of = |text: &str, host: Option<&str>| {
            api_server_of(
                text,
                |name| if name.ends_with("HOST") { host.map(str::to_owned) } else { Some("443".to_owned()) },
            )
        };
        assert_eq!(of("cluster", Some("10.96.0.1")).unwrap(), "10.96.0.1:443");
        assert_eq!(of("cluster", Some("fd00::1")).unwrap(), "[fd00::1]:443");
        assert!(of("cluster", None).unwrap_err().contains("KUBERNETES_SERVICE_HOST"));
        assert_eq!(of("api.site:6443", None).unwrap(), "api.site:6443");
        for wrong in ["", "api.site", "https://api.site", "https://api.site:443", ":443", "api.site:port"] {
            assert!(of(wrong, None).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn quotas_are_read_and_checked() {
        let parse = |flags: &[&str]| Config::try_parse_from([&["x", "--tls", "t"][..], flags].concat());
        let config = parse(&["--memory-quota", "2G", "--stream-quota", "4", "--session-time", "8h"]).unwrap();
        assert_eq!((config.memory_quota, config.stream_quota), (Some(2 << 30), Some(4)));
        assert_eq!(config.session_time, Some(Duration::from_secs(8 * 3600)));
        for bad in [
            ["--memory-quota", "0"],
            ["--memory-quota", "much"],
            ["--stream-quota", "0"],
            ["--stream-quota", "33"],
            ["--session-time", "0"],
            ["--session-time", "8 hours"],
        ] {
            assert!(parse(&bad).is_err(), "{bad:?}");
        }
        // One of the listeners is required.
        assert!(Config::try_parse_from(["x"]).is_err() && Config::try_parse_from(["x", "--socket", "/run/s"]).is_ok());
    }
}
