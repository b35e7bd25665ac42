//! Handing out certificates, for as long as `accord setup server` or `admit` runs.

use super::site::{check_root, host_name};
use super::steps::Steps;
use crate::command::pki::days_left;
use crate::failure::{Failure, Result};
use crate::output::show;
use crate::setup_args::{AdmitArgs, COORDINATOR_PORT};
use accord_trust::Role;
use accord_trust::issue::Authority;
use accord_trust::join::{Accepted, Code, Invitation, Open, accept};
use accord_trust::register::issued;
use accord_types::threads;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::unistd::User;
use std::collections::{HashMap, HashSet};
use std::io::Write;
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

/// Clients that are served at one time.
const CLIENTS_MAX: usize = 32;
/// How long a client may take.
const CLIENT_LIMIT: Duration = Duration::from_secs(20);
/// How long it may take until a client's result is looked at.
const LOOK: u16 = 200;
/// Some invitations were not used.
const LEFT: u8 = 1;

/// What a client came to, and its address.
type Served = (SocketAddr, accord_types::Result<Accepted>);

/// Runs `accord setup admit`.
pub(super) fn command(args: &AdmitArgs) -> Result<u8> {
    check_root("accord setup admit", false)?;
    let roles = roles(args);
    if roles.is_empty() {
        return Err(Failure::usage("name whom to admit: --node, --user or --admin"));
    }
    admit(&roles, args)
}

/// Hands out certificates to those of the arguments who have none that is valid.
pub(super) fn missing(steps: &mut Steps, args: &AdmitArgs) -> Result<u8> {
    let known = issued(&args.authority)?;
    let mut left = Vec::new();
    for role in roles(args) {
        let found = known.iter().find(|(name, expiry)| name.role == role && days_left(*expiry) >= 0);
        match found {
            Some((_, expiry)) => {
                let what = format!(
                    "certificate of {role}: {} days left (accord setup admit gives another)",
                    days_left(*expiry)
                );
                steps.step(what, true, || Ok(()))?;
            }
            None if steps.is_dry() => {
                steps.step(format!("an invitation for {role}"), false, || Ok(()))?;
            }
            None => left.push(role),
        }
    }
    if left.is_empty() { Ok(0) } else { admit(&left, args) }
}

/// Returns the lifetime of a certificate of so many days.
pub(super) fn lifetime(days: u32) -> Duration {
    Duration::from_secs(u64::from(days) * 86_400)
}

fn roles(args: &AdmitArgs) -> Vec<Role> {
    let nodes = args.nodes.iter().cloned().map(Role::Agent);
    let users = args.users.iter().cloned().map(Role::Tenant);
    let mut roles: Vec<Role> = nodes.chain(users).chain(args.admins.iter().cloned().map(Role::Admin)).collect();
    let mut seen = HashSet::new();
    roles.retain(|role| seen.insert(role.clone()));
    roles
}

/// Prints an invitation for each, and serves them until all have come or the time is over.
fn admit(roles: &[Role], args: &AdmitArgs) -> Result<u8> {
    let authority = Arc::new(Authority::read(&args.authority)?);
    let address = args.address.clone().map_or_else(host_name, Ok)?;
    let (host, coordinator) = match address.rsplit_once(':') {
        Some((host, _)) => (host.to_owned(), address.clone()),
        None => (address.clone(), format!("{address}:{COORDINATOR_PORT}")),
    };
    let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, args.join_port)).map_err(|error| {
        Failure::new(format!("can't listen on port {}: {error}; choose another --join-port", args.join_port))
    })?;
    listener.set_nonblocking(true).map_err(|error| Failure::system("can't listen", error))?;
    let mut invitations = Vec::new();
    for role in roles {
        let server = format!("{host}:{}", args.join_port);
        let invitation = Invitation { server, role: role.clone(), code: Code::random()? };
        // Its text is read again by the invited.
        invitation.to_string().parse::<Invitation>().map_err(Failure::usage)?;
        invitations.push(invitation);
    }
    show(&format!("Each line counts once, within {} minutes, while this command runs:\n", args.minutes));
    let here: Vec<(Invitation, LocalHolder)> = invitations
        .iter()
        .filter_map(|invitation| Some((invitation.clone(), LocalHolder::of(&invitation.role)?)))
        .collect();
    for invitation in &invitations {
        let is_here = here.iter().any(|(local, _)| local == invitation);
        show(&format!(
            "  {}\n",
            if is_here { format!("{}: on this machine, by this command", invitation.role) } else { line(invitation) }
        ));
    }
    let open = Arc::new(Open::new(invitations));
    let server = JoinServer { listener, open, authority, lifetime: lifetime(args.days), coordinator };
    let (ended, ends) = channel();
    for (invitation, holder) in here {
        let invitation = Invitation { server: format!("127.0.0.1:{}", args.join_port), ..invitation };
        let ended = ended.clone();
        let run = move || {
            let _ = ended.send((invitation.role.clone(), holder.join(&invitation)));
        };
        threads::spawn("accord setup holder", run).map_err(|error| Failure::system("no thread", error))?;
    }
    drop(ended);
    let deadline = Instant::now() + Duration::from_secs(60 * u64::from(args.minutes));
    let left = server.serve(deadline)?;
    // Those of this machine go on after they have their certificate.
    let failed: Vec<Failure> = ends.into_iter().filter_map(|(_, end)| end.err()).collect();
    if let Some(failure) = failed.into_iter().next() {
        return Err(failure);
    }
    if left.is_empty() {
        return Ok(0);
    }
    let names: Vec<String> = left.iter().map(ToString::to_string).collect();
    show(&format!("the time is over; not used: {}; accord setup admit prints new lines\n", names.join(", ")));
    Ok(LEFT)
}

/// Returns what the invited enters.
fn line(invitation: &Invitation) -> String {
    match &invitation.role {
        Role::Agent(name) => format!("on {name}, as root:  accord setup node {invitation}"),
        role => format!("as {role}:  accord setup user {invitation}"),
    }
}

/// One of the invited who is on this machine: the node, or an account with a home.
struct LocalHolder {
    words: [&'static str; 2],
    account: Option<User>,
}

impl LocalHolder {
    fn of(role: &Role) -> Option<Self> {
        match role {
            Role::Agent(name) => {
                (host_name().ok()? == *name).then_some(Self { words: ["setup", "node"], account: None })
            }
            Role::Tenant(name) | Role::Admin(name) => {
                let account = User::from_name(name).ok().flatten().filter(|user| user.dir.is_dir())?;
                Some(Self { words: ["setup", "user"], account: Some(account) })
            }
            Role::Authority | Role::Coordinator => None,
        }
    }

    /// Enters the line of the invited, as the invited: a user's files are written with the user's rights.
    fn join(&self, invitation: &Invitation) -> Result<()> {
        let program = std::env::current_exe().map_err(|error| Failure::system("can't find this program", error))?;
        let mut command = Command::new(program);
        // In its arguments other users would see the code.
        command.args(self.words).arg("-").stdin(Stdio::piped());
        if let Some(user) = &self.account {
            command.uid(user.uid.as_raw()).gid(user.gid.as_raw()).env("HOME", &user.dir).current_dir("/");
        }
        let failed = |error| Failure::system("can't start this program again", error);
        let mut child = command.spawn().map_err(failed)?;
        if let Some(mut input) = child.stdin.take() {
            // A child that has ended says why.
            let _ = writeln!(input, "{invitation}");
        }
        let status = child.wait().map_err(failed)?;
        let role = &invitation.role;
        if status.success() {
            Ok(())
        } else {
            Err(Failure::new(format!("the setup of {role} on this machine has failed; its message is above")))
        }
    }
}

/// The listener of a setup, with what it hands out.
struct JoinServer {
    listener: TcpListener,
    open: Arc<Open>,
    authority: Arc<Authority>,
    lifetime: Duration,
    coordinator: String,
}

impl JoinServer {
    /// Serves clients until no invitation is open, or the time is over. Returns those that are left.
    fn serve(&self, deadline: Instant) -> Result<Vec<Role>> {
        let (sender, results) = channel();
        let mut clients: HashMap<SocketAddr, (Instant, TcpStream)> = HashMap::new();
        while (!self.open.roles().is_empty() || !clients.is_empty()) && Instant::now() < deadline {
            for from in told(&results) {
                clients.remove(&from);
            }
            for (_, stream) in clients.values().filter(|(begun, _)| begun.elapsed() > CLIENT_LIMIT) {
                // Its thread gives up.
                let _ = stream.shutdown(Shutdown::Both);
            }
            let mut wait = [PollFd::new(self.listener.as_fd(), PollFlags::POLLIN)];
            if clients.len() >= CLIENTS_MAX {
                std::thread::sleep(Duration::from_millis(u64::from(LOOK)));
            } else if matches!(poll(&mut wait, PollTimeout::from(LOOK)), Ok(1..))
                && let Ok((stream, from)) = self.listener.accept()
                && let Ok(kept) = stream.try_clone()
                && self.receive(stream, from, sender.clone())
            {
                clients.insert(from, (Instant::now(), kept));
            }
        }
        told(&results);
        Ok(self.open.roles())
    }

    /// Has a thread serve a client; whether it does.
    fn receive(&self, stream: TcpStream, from: SocketAddr, sender: Sender<Served>) -> bool {
        let (open, authority) = (self.open.clone(), self.authority.clone());
        let (lifetime, coordinator) = (self.lifetime, self.coordinator.clone());
        let blocks = stream.set_nonblocking(false);
        let serve = move || {
            let _ = sender.send((from, accept(&stream, &open, &authority, lifetime, &coordinator)));
        };
        blocks.and_then(|()| threads::spawn("accord setup client", serve)).is_ok()
    }
}

/// Prints what clients came to; returns their addresses.
fn told(results: &Receiver<Served>) -> Vec<SocketAddr> {
    let mut served = Vec::new();
    for (client, result) in results.try_iter() {
        served.push(client);
        let from = client.ip();
        match result {
            Ok(Accepted { role, is_kept: true }) => show(&format!("done       certificate of {role}, at {from}\n")),
            Ok(Accepted { role, .. }) => show(&format!(
                "!!         {role} at {from} got its certificate and did not say that it keeps it: accord setup admit gives another\n"
            )),
            Err(error) => show(&format!("!!         a client at {from} is refused: {}\n", error.cause())),
        }
    }
    served
}
