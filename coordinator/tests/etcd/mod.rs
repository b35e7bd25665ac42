//! Members of an etcd cluster on loopback, which end with the test.

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// How long a member may take to listen.
const STARTS_WITHIN: Duration = Duration::from_secs(60);

/// An etcd cluster.
pub(crate) struct Etcd {
    folder: TempDir,
    options: Vec<String>,
    members: Vec<Member>,
}

struct Member {
    clients: SocketAddr,
    peers: SocketAddr,
    process: Option<Child>,
}

/// Returns a free port of a loopback address that only this process uses: a member that is started again has it still.
pub(crate) fn free_port() -> SocketAddr {
    let [_, high, middle, low] = std::process::id().to_be_bytes();
    let own = Ipv4Addr::new(127, 64 | high, middle, low);
    TcpListener::bind((own, 0)).and_then(|listener| listener.local_addr()).expect("a free port")
}

impl Etcd {
    /// Starts as many members. Returns `None`, and says so, on a machine without etcd.
    pub(crate) fn start(members: usize, options: &[&str]) -> Option<Self> {
        let version = Command::new("etcd").arg("--version").stdout(Stdio::null()).status();
        if version.is_err_and(|error| error.kind() == ErrorKind::NotFound) {
            println!("skipped: no etcd (package etcd-server)");
            return None;
        }
        let members = (0..members).map(|_| Member { clients: free_port(), peers: free_port(), process: None });
        let options = options.iter().map(|option| (*option).to_owned()).collect();
        let folder = tempfile::tempdir().expect("a folder");
        let mut etcd = Self { folder, options, members: members.collect() };
        (0..etcd.members.len()).for_each(|member| etcd.spawn(member));
        (0..etcd.members.len()).for_each(|member| etcd.await_health(member));
        Some(etcd)
    }

    /// Starts a member again that was killed.
    pub(crate) fn start_member(&mut self, member: usize) {
        self.spawn(member);
        self.await_member(member);
    }

    /// Kills a member.
    pub(crate) fn kill(&mut self, member: usize) {
        if let Some(mut process) = self.members[member].process.take() {
            process.kill().expect("a process of this test");
            process.wait().expect("a child");
        }
    }

    /// The value of `--state` for this cluster.
    pub(crate) fn location(&self, prefix: &str) -> String {
        let members: Vec<String> = self.members.iter().map(|member| member.clients.to_string()).collect();
        format!("etcd://{}/{prefix}", members.join(","))
    }

    /// Runs etcdctl. Returns what it prints.
    pub(crate) fn control(&self, arguments: &[&str]) -> String {
        let address = self.members[0].clients.to_string();
        let output = Command::new("etcdctl")
            .env("ETCDCTL_API", "3")
            .args(["--endpoints", &address])
            .args(arguments)
            .output()
            .expect("etcdctl (package etcd-client)");
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    fn spawn(&mut self, member: usize) {
        let name = |at: usize| format!("m{at}");
        let all: Vec<String> =
            self.members.iter().enumerate().map(|(at, of)| format!("{}=http://{}", name(at), of.peers)).collect();
        let Member { clients, peers, process } = &mut self.members[member];
        let (clients, peers) = (format!("http://{clients}"), format!("http://{peers}"));
        let mut command = Command::new("etcd");
        command.arg("--data-dir").arg(self.folder.path().join(name(member))).args(["--name", &name(member)]);
        command.args(["--listen-client-urls", &clients, "--advertise-client-urls", &clients]);
        command.args(["--listen-peer-urls", &peers, "--initial-advertise-peer-urls", &peers]);
        command.args(["--initial-cluster", &all.join(",")]).args(&self.options);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        *process = Some(command.spawn().expect("etcd"));
    }

    /// Waits until a member can decide. One that is killed earlier may have no members on its disk, and then never decides.
    fn await_health(&self, member: usize) {
        let begun = Instant::now();
        while !self.is_healthy(member).is_ok_and(|is_healthy| is_healthy) {
            assert!(begun.elapsed() < STARTS_WITHIN, "etcd does not decide");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn is_healthy(&self, member: usize) -> std::io::Result<bool> {
        let mut connection = TcpStream::connect(self.members[member].clients)?;
        connection.set_read_timeout(Some(STARTS_WITHIN))?;
        connection.write_all(b"GET /health HTTP/1.0\r\n\r\n")?;
        let mut answer = String::new();
        connection.read_to_string(&mut answer)?;
        Ok(answer.contains(r#""health":"true""#))
    }

    fn await_member(&self, member: usize) {
        let begun = Instant::now();
        while TcpStream::connect(self.members[member].clients).is_err() {
            assert!(begun.elapsed() < STARTS_WITHIN, "etcd does not listen");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        (0..self.members.len()).for_each(|member| self.kill(member));
    }
}
