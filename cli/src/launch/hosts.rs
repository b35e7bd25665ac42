//! The hosts of a local cluster: namespaces with their own addresses and names, or loopback
//! addresses.

use crate::failure::{Failure, Result};
use crate::internal_args::Separation;
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, setns, unshare};
use nix::unistd::sethostname;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs::File;
use std::io::Write as _;
use std::net::Ipv4Addr;
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// Prefix of the hosts' addresses, which end in 1 and up; no other network is reachable from them.
const NETWORK: [u8; 3] = [10, 77, 0];
/// The coordinator's address on the bridge.
const BRIDGE_ADDRESS: u8 = 254;
const NO_PATH: Option<&str> = None;

/// The hosts of one run. They exist as long as this value and the processes in them.
pub(crate) struct Hosts {
    count: u32,
    /// Empty if hosts are loopback addresses.
    spaces: Vec<Space>,
}

/// One host's namespaces.
struct Space {
    net: File,
    uts: File,
}

impl Hosts {
    /// The interface of each host to [`Hosts::network`].
    pub(super) const INTERFACE: &str = "eth0";

    /// Creates hosts h1 to h`count`. With namespaces, this process moves into new mount, network and UTS namespaces,
    /// which have the bridge between the hosts; it must be single-threaded.
    pub(crate) fn new(count: u32, separation: Separation) -> Result<Self> {
        let spaces = match separation {
            Separation::Loopback => Vec::new(),
            Separation::Namespaces => namespaces(count)?,
        };
        Ok(Self { count, spaces })
    }

    /// Returns the number of hosts.
    pub(crate) fn count(&self) -> u32 {
        self.count
    }

    /// Whether the hosts are namespaces.
    pub(crate) fn separate(&self) -> bool {
        !self.spaces.is_empty()
    }

    /// Returns the name of host `index`, from 0.
    pub(crate) fn name(index: u32) -> String {
        format!("h{}", index + 1)
    }

    /// Returns the address of host `index`, from 0.
    pub(crate) fn address(&self, index: u32) -> Ipv4Addr {
        let octet = u8::try_from(index + 1).unwrap_or(u8::MAX);
        if self.separate() { address(octet) } else { Ipv4Addr::new(127, 0, 0, octet.saturating_add(1)) }
    }

    /// Returns the address of the coordinator, which is on none of the hosts.
    pub(crate) fn coordinator_address(&self) -> Ipv4Addr {
        if self.separate() { address(BRIDGE_ADDRESS) } else { Ipv4Addr::LOCALHOST }
    }

    /// Returns the network of all hosts, for mpirun.
    pub(crate) fn network() -> String {
        let [a, b, c] = NETWORK;
        format!("{a}.{b}.{c}.0/24")
    }

    /// Returns the arguments of `accord __exec` that move a program to host `index`.
    pub(crate) fn entry(&self, index: u32) -> Vec<OsString> {
        let Some(space) = usize::try_from(index).ok().and_then(|index| self.spaces.get(index)) else {
            return Vec::new();
        };
        let (net, uts) = space.paths();
        vec!["--net".into(), net.into(), "--uts".into(), uts.into()]
    }

    /// Returns the table of hosts for `accord __rsh`.
    pub(crate) fn table(&self) -> String {
        let mut table = String::new();
        for (index, space) in (0..).zip(&self.spaces) {
            let (net, uts) = space.paths();
            let _ = writeln!(table, "{} {} {}", Self::name(index), net.display(), uts.display());
        }
        table
    }
}

impl Space {
    /// Returns the paths by which other processes of the run open the namespaces.
    fn paths(&self) -> (PathBuf, PathBuf) {
        let path = |file: &File| format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd()).into();
        (path(&self.net), path(&self.uts))
    }
}

/// Checks, in a child process, that this process may create the namespaces of a local cluster and has the necessary
/// tool.
pub(crate) fn can_have_namespaces() -> Result<(), String> {
    if !nix::unistd::geteuid().is_root() {
        return Err("not root".to_owned());
    }
    let output = Command::new("unshare")
        .args(["--mount", "--net", "--uts", "--pid", "--fork", "--mount-proc"])
        .args(["ip", "link", "add", "probe", "type", "veth", "peer", "name", "eborp"])
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("unshare: {error}"))?;
    if output.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&output.stderr).trim().to_owned()) }
}

fn namespaces(count: u32) -> Result<Vec<Space>> {
    let system = |what: &'static str| move |error: nix::Error| Failure::system(what, error);
    // A mount namespace first: /proc must show this process namespace, and only to this run.
    unshare(CloneFlags::CLONE_NEWNS | CloneFlags::CLONE_NEWNET).map_err(system("can't make namespaces"))?;
    mount(NO_PATH, "/", NO_PATH, MsFlags::MS_REC | MsFlags::MS_PRIVATE, NO_PATH)
        .map_err(system("can't make mounts private"))?;
    mount(Some("proc"), "/proc", Some("proc"), MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC, NO_PATH)
        .map_err(system("can't mount /proc"))?;

    let home = Space::of_this_process()?;
    let (home_net, _) = home.paths();
    let mut spaces = Vec::new();
    // The bridge is created first and so takes a link number. The kernel takes 1 s to notice that a link is up if it
    // has the same number as its peer in the other namespace.
    ip(&format!(
        "link set lo up\nlink add hosts type bridge\naddr add {}/24 dev hosts\nlink set hosts up\n",
        address(BRIDGE_ADDRESS)
    ))?;
    let mut ports = String::new();
    let interface = Hosts::INTERFACE;
    for index in 0..count {
        let name = Hosts::name(index);
        unshare(CloneFlags::CLONE_NEWNET | CloneFlags::CLONE_NEWUTS)
            .map_err(system("can't make a host's namespaces"))?;
        sethostname(&name).map_err(system("can't name a host"))?;
        ip(&format!(
            "link set lo up\n\
             link add {interface} type veth peer name {name} netns {}\n\
             addr add {}/24 dev {interface}\n\
             link set {interface} up\n",
            home_net.display(),
            address(u8::try_from(index + 1).unwrap_or(u8::MAX)),
        ))?;
        spaces.push(Space::of_this_process()?);
        setns(&home.net, CloneFlags::CLONE_NEWNET).map_err(system("can't return to the bridge"))?;
        setns(&home.uts, CloneFlags::CLONE_NEWUTS).map_err(system("can't return to the bridge"))?;
        let _ = writeln!(ports, "link set {name} master hosts up");
    }
    ip(&ports)?;
    Ok(spaces)
}

impl Space {
    fn of_this_process() -> Result<Self> {
        let open = |path| File::open(path).map_err(|error| Failure::system(format!("can't open {path}"), error));
        Ok(Self { net: open("/proc/self/ns/net")?, uts: open("/proc/self/ns/uts")? })
    }
}

/// Runs lines of iproute2's `ip` in this process's network namespace.
fn ip(lines: &str) -> Result<()> {
    let what = "can't set up the hosts' network with ip (package iproute2)";
    let mut child = Command::new("ip")
        .args(["-batch", "-"])
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| Failure::system(what, error))?;
    if let Some(mut stdin) = child.stdin.take() {
        // A write fails only if ip has ended, and its status says why.
        let _ = stdin.write_all(lines.as_bytes());
    }
    let output = child.wait_with_output().map_err(|error| Failure::system(what, error))?;
    if output.status.success() {
        Ok(())
    } else {
        Err(Failure::system(what, String::from_utf8_lossy(&output.stderr).trim()))
    }
}

fn address(octet: u8) -> Ipv4Addr {
    let [a, b, c] = NETWORK;
    Ipv4Addr::new(a, b, c, octet)
}
