//! Hosts that are network namespaces of this machine, with a bridge between them. Processes hold the namespaces, so
//! nothing is left of them after the test, whatever ends it.

use crate::Result;
use nix::unistd::geteuid;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

/// The coordinator's address, on the bridge.
const BRIDGE_ADDRESS: u8 = 254;

/// The hosts of a test.
#[derive(Debug)]
pub struct SeparateHosts {
    /// Holds the namespaces with the bridge.
    middle: Holder,
    hosts: Vec<Holder>,
}

/// A process that holds a host's namespaces until its standard input ends.
#[derive(Debug)]
struct Holder(Child);

impl SeparateHosts {
    /// Creates this many hosts.
    ///
    /// # Errors
    /// Returns the reason: this process is not root's, or a namespace, the bridge or a link can't be made.
    pub fn new(count: usize) -> Result<Self> {
        if !geteuid().is_root() {
            return Err("only root can have network namespaces".to_owned());
        }
        let middle = Holder::start("middle")?;
        ip(&middle, &["link", "set", "lo", "up"])?;
        ip(&middle, &["link", "add", "bridge", "type", "bridge"])?;
        ip(&middle, &["addr", "add", &format!("{}/24", address(BRIDGE_ADDRESS)), "dev", "bridge"])?;
        ip(&middle, &["link", "set", "bridge", "up"])?;
        let mut made = Self { middle, hosts: Vec::new() };
        for host in 0..count {
            made.add(host)?;
        }
        Ok(made)
    }

    fn add(&mut self, host: usize) -> Result<()> {
        let holder = Holder::start(&format!("h{host}"))?;
        let (link, process) = (link(host), holder.0.id().to_string());
        let pair = ["link", "add", &link, "type", "veth", "peer", "name", "eth0", "netns", &process];
        ip(&self.middle, &pair)?;
        ip(&self.middle, &["link", "set", &link, "master", "bridge", "up"])?;
        ip(&holder, &["addr", "add", &format!("{}/24", self.address(host)), "dev", "eth0"])?;
        ip(&holder, &["link", "set", "eth0", "up"])?;
        ip(&holder, &["link", "set", "lo", "up"])?;
        self.hosts.push(holder);
        Ok(())
    }

    /// Returns a host's address.
    pub fn address(&self, host: usize) -> String {
        address(u8::try_from(host + 1).unwrap_or(u8::MAX))
    }

    /// Returns the address of the coordinator, which is on none of the hosts.
    pub fn coordinator_address(&self) -> String {
        address(BRIDGE_ADDRESS)
    }

    /// Returns the command prefix that enters a host, as `user` if given; `None` is the coordinator's host.
    pub fn entry(&self, host: Option<usize>, user: Option<u32>) -> Vec<String> {
        let process = host.map_or(&self.middle, |host| &self.hosts[host]).0.id();
        let mut words: Vec<String> =
            ["nsenter", "-t", &process.to_string(), "-n", "-u"].into_iter().map(str::to_owned).collect();
        words.extend(user.into_iter().flat_map(|user| [format!("--setuid={user}"), format!("--setgid={user}")]));
        words
    }

    /// Unplugs a host's cable, or plugs it in.
    ///
    /// # Errors
    /// Returns the message of `ip`.
    pub fn plug(&self, host: usize, is_in: bool) -> Result<()> {
        ip(&self.middle, &["link", "set", &link(host), if is_in { "up" } else { "down" }])
    }
}

impl Holder {
    fn start(name: &str) -> Result<Self> {
        let failed = |error: std::io::Error| format!("unshare: {error}");
        let script = "hostname \"$0\" && echo held && read -r _";
        let mut command = Command::new("unshare");
        command.args(["--net", "--uts", "sh", "-c", script, name]);
        let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit()).spawn();
        let mut holder = Self(child.map_err(failed)?);
        let mut line = String::new();
        if let Some(stdout) = holder.0.stdout.take() {
            BufReader::new(stdout).read_line(&mut line).map_err(failed)?;
        }
        if line == "held\n" { Ok(holder) } else { Err("this machine gives no network namespaces".to_owned()) }
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Returns the command with a prefix that enters a host.
pub(crate) fn entered(entry: &[String], command: &Command) -> Command {
    let mut entered = Command::new(&entry[0]);
    entered.args(&entry[1..]).arg("--").arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => entered.env(name, value),
            None => entered.env_remove(name),
        };
    }
    entered
}

fn address(octet: u8) -> String {
    format!("10.78.0.{octet}")
}

/// Returns the name of the bridge's end of a host's cable.
fn link(host: usize) -> String {
    format!("host{host}")
}

/// Runs `ip` in a holder's namespaces.
fn ip(holder: &Holder, arguments: &[&str]) -> Result<()> {
    let mut command = Command::new("nsenter");
    command.args(["-t", &holder.0.id().to_string(), "-n", "-u", "ip"]).args(arguments);
    let output = command.output().map_err(|error| format!("nsenter: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("ip {}: {}", arguments.join(" "), String::from_utf8_lossy(&output.stderr).trim()))
}
