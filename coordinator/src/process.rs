//! The coordinator's process: reads flags, serves, stops on SIGTERM.

mod term;

use crate::config::Config;
use crate::metrics::{self, TABLE};
use crate::service::{
    Driver, DriverSettings, Listeners, PageListener, QuotaFlags, StateWriter, leads, listen_here, unix_ms,
};
use crate::store::{FileStore, StateLocation};
use accord_cluster::Limits;
use accord_monitoring::Monitor;
use accord_scheduler::policy::{POLICY_BYTES_MAX, SitePolicy};
use accord_telemetry::log;
use accord_trust::Trust;
use accord_trust::access::{Act, check};
use accord_types::scarce;
use accord_types::unknown_settings::unknown_settings;
use clap::Parser;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use term::{Candidacy, End, Term, follow_anew};
use tokio::net::TcpListener;

/// Runs the coordinator by the flags of this process.
pub fn main() -> ExitCode {
    let config = Config::parse();
    let _flush = log::to_stderr("accord-coordinator", config.log, metrics::log_dropped);
    for unknown in unknown_settings(std::env::vars_os().map(|(name, _)| name)) {
        tracing::warn!("{unknown}");
    }
    if config.insecure_plain_tcp {
        tracing::warn!("commands and data of sessions leave machines in clear: --insecure-plain-tcp");
    }
    match run(&config) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            log::report_line(format_args!("accord-coordinator: {error}"));
            ExitCode::FAILURE
        }
    }
}

fn read_trust(folder: &Path) -> accord_types::Result<Trust> {
    let trust = Trust::read(folder)?;
    // Without this check each client would report the wrong role.
    check(trust.current(|_| ()).name()?, Act::Coordinate)?;
    Ok(trust)
}

/// Reads a policy file, at most one byte more than a policy may have, so that the parser refuses a longer one.
fn read_policy(file: &Path) -> Result<SitePolicy, String> {
    let most = u64::try_from(POLICY_BYTES_MAX).unwrap_or(u64::MAX).saturating_add(1);
    let mut text = String::new();
    File::open(file)
        .and_then(|opened| opened.take(most).read_to_string(&mut text))
        .map_err(|error| format!("cannot read the policy {}: {error}", file.display()))?;
    SitePolicy::read(&text, None).map_err(|findings| {
        let findings: Vec<String> = findings.iter().map(|finding| format!("{}:{finding}", file.display())).collect();
        format!("the policy is wrong; correct it, or start without --policy\n{}", findings.join("\n"))
    })
}

/// Raises the limit on open files, because each program has a connection. A failure only lowers the number of
/// connections.
fn take_all_descriptors() {
    let limit = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
}

fn run(config: &Config) -> Result<(), String> {
    take_all_descriptors();
    let policy = config.policy.as_deref().map(read_policy).transpose()?;
    let trust = config.tls.as_deref().map(read_trust).transpose().map_err(|error| error.to_string())?;
    let runtime = accord_proto::runtime::one_threaded().map_err(|error| format!("cannot start: {error}"))?;
    let end = runtime.block_on(async {
        let local = config.socket.as_deref().map(listen_here).transpose()?;
        let mut addresses = Vec::new();
        let tcp = match trust {
            Some(trust) => {
                let failed = |error: std::io::Error| {
                    let remedy = scarce::remedy(&error).unwrap_or("choose another --listen");
                    format!("cannot listen on {}: {error}; {remedy}", config.listen)
                };
                let listener = TcpListener::bind(config.listen).await.map_err(failed)?;
                addresses.push(listener.local_addr().map_err(|error| error.to_string())?.to_string());
                Some((listener, Arc::new(trust)))
            }
            None => None,
        };
        addresses
            .extend(config.socket.as_ref().map(|path| format!("{}{}", accord_trust::local::SCHEME, path.display())));
        let page = match config.page() {
            Some((address, anonymous_access)) => {
                let trust = tcp.as_ref().map(|(_, trust)| trust.clone());
                Some(PageListener::bind(address, trust, config.page_url.as_deref(), anonymous_access).await?)
            }
            None => None,
        };
        let listeners = Listeners { tcp, local, page, program_lost_after: config.program_lost_after };
        let election = Candidacy::of(config, &listeners, addresses.first().map_or("", String::as_str))?;
        let monitored = match &config.metrics_listen {
            Some(address) => {
                let trust = listeners.tcp.as_ref().map(|(_, trust)| trust.clone());
                let outcome = election.as_ref().map(Candidacy::outcome);
                let standing = outcome.clone();
                let refresh = move || {
                    if let Some(trust) = &trust {
                        metrics::certificate_expiry(trust);
                    }
                    metrics::leads(standing.as_ref().is_none_or(|outcome| leads(outcome).is_ok()));
                };
                let ready = move || outcome.as_ref().map_or(Ok(()), leads);
                Some(Monitor::install(&TABLE, ready)?.refreshed_by(refresh).listen(address).await?)
            }
            None => None,
        };
        let stop = accord_proto::stop::signal(config.stop_on_stdin_eof).map_err(|error| error.to_string())?;
        // The parent process reads the port from here. It may have closed the pipe.
        for address in addresses {
            let _ = writeln!(std::io::stdout(), "accord-coordinator listening on {address}");
        }
        if let Some(address) = monitored {
            let _ = writeln!(std::io::stdout(), "accord-coordinator shows metrics on {address}");
        }
        if let Some(page) = &listeners.page {
            let _ = writeln!(std::io::stdout(), "accord-coordinator shows its page at {}", page.url());
        }
        let term = Term { config, settings: settings(config), policy, listeners };
        let mut stop = std::pin::pin!(stop);
        match (election, &config.state) {
            (Some(candidacy), _) => term.of_elected(candidacy, stop.as_mut()).await,
            (None, Some(StateLocation::File(path))) => {
                let opened = FileStore::open(path, unix_ms()).map_err(|error| error.to_string())?;
                let (driver, writer) = StateWriter::begin(term.settings, opened)?;
                let served = term.serve(driver, stop).await;
                served.and(writer.close()).map(|()| End::Stopped)
            }
            (None, _) => term.serve(Arc::new(Driver::new(term.settings)), stop).await.map(|()| End::Stopped),
        }
    })?;
    // Connections and tasks of the coordinator that led end with its runtime.
    drop(runtime);
    match end {
        End::Stopped => Ok(()),
        End::LeadsNoLonger(why) => Err(follow_anew(&why)),
    }
}

fn settings(config: &Config) -> DriverSettings {
    let limits = Limits {
        memory_quota: config.memory_quota.unwrap_or(0),
        stream_quota: config.stream_quota.unwrap_or(Limits::default().stream_quota),
        session_quota: usize::try_from(config.session_quota).unwrap_or(usize::MAX),
        session_ms: config.session_time.map_or(0, |time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX)),
        plain_tcp: config.insecure_plain_tcp,
        lost_after_ms: u64::try_from(config.lost_after.as_millis()).unwrap_or(u64::MAX),
        ..Limits::default()
    };
    let flags = QuotaFlags {
        memory: config.memory_quota.is_some(),
        stream: config.stream_quota.is_some(),
        session_time: config.session_time.is_some(),
    };
    DriverSettings { limits, flags, counts_devices: config.metrics_listen.is_some() }
}
