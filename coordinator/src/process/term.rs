//! A coordinator of several: it follows until it is elected, and leads until its lease is lost.

use crate::config::Config;
use crate::etcd::EtcdLocation;
use crate::leadership::{Election, Outcome};
use crate::service::{Attestation, Driver, DriverSettings, Listeners, StateWriter, follow, serve, unix_ms};
use crate::store::{EtcdStore, Leadership, StateLocation};
use accord_proto::threads::on_thread;
use accord_scheduler::policy::SitePolicy;
use accord_telemetry::log;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::Arc;
use tokio::sync::watch;

/// This process, even if its file was replaced.
const OWN_PROGRAM: &str = "/proc/self/exe";
const HOST_NAME: &str = "/proc/sys/kernel/hostname";

/// The reason for the end of a coordinator.
pub(crate) enum End {
    /// It was told to.
    Stopped,
    /// Another coordinator leads, or may lead.
    LeadsNoLonger(String),
}

/// Its part in the election of the coordinator that leads.
pub(crate) struct Candidacy {
    election: Election,
    location: EtcdLocation,
    cluster: String,
}

/// The endpoints and settings of a coordinator.
pub(crate) struct Term<'a> {
    pub(crate) config: &'a Config,
    pub(crate) settings: DriverSettings,
    pub(crate) policy: Option<SitePolicy>,
    pub(crate) listeners: Listeners,
}

impl Candidacy {
    /// Begins to stand for leader, if the state is in etcd. `listening` is the address that the coordinator listens on.
    ///
    /// # Errors
    /// Returns an error if the system has no thread.
    pub(crate) fn of(config: &Config, listeners: &Listeners, listening: &str) -> Result<Option<Self>, String> {
        let Some(StateLocation::Etcd(location)) = config.state.clone() else { return Ok(None) };
        let tls = config.etcd_tls();
        if tls.is_none() {
            tracing::warn!("the state, with the secrets of jobs, goes to etcd in clear: see --etcd-ca");
        }
        let cluster = match &listeners.tcp {
            Some((_, trust)) => trust.current(|_| ()).name().map_err(|error| error.to_string())?.cluster.clone(),
            None => String::new(),
        };
        let address = config.advertise.clone().unwrap_or_else(|| reachable(config, listening));
        let election = Election::begin(location.clone(), tls, address);
        let election = election.map_err(|error| format!("cannot start: {error}"))?;
        Ok(Some(Self { election, location, cluster }))
    }

    pub(crate) fn outcome(&self) -> watch::Receiver<Outcome> {
        self.election.outcome()
    }
}

/// Returns the address of `--listen` as other machines reach it.
fn reachable(config: &Config, listening: &str) -> String {
    if !config.listen.ip().is_unspecified() {
        return listening.to_owned();
    }
    let port = listening.rsplit_once(':').map_or("", |(_, port)| port);
    let name = std::fs::read_to_string(HOST_NAME).unwrap_or_default();
    format!("{}:{port}", name.trim_end())
}

impl Term<'_> {
    /// Serves until `stop` is done or an administrator stops the coordinator.
    ///
    /// # Errors
    /// Returns an error if the policy or a port can't be used.
    pub(crate) async fn serve(&self, driver: Arc<Driver>, stop: impl Future<Output = ()>) -> Result<(), String> {
        if let Some(policy) = self.policy.clone() {
            driver.begin_with(policy)?;
        }
        serve(&self.listeners, self.attestation(), driver, stop).await.map_err(|error| error.to_string())
    }

    /// Follows until this coordinator is elected, and serves until it leads no longer or `stop` is done.
    ///
    /// # Errors
    /// Returns an error if the state or a port can't be used.
    pub(crate) async fn of_elected(
        &self,
        candidacy: Candidacy,
        mut stop: impl Future<Output = ()> + Unpin,
    ) -> Result<End, String> {
        let Candidacy { election, location, cluster } = candidacy;
        let elected = async {
            tokio::select! {
                elected = election.elected() => elected.map(Some),
                () = &mut stop => Ok(None),
            }
        };
        let followed = follow(&self.listeners, self.attestation(), election.outcome(), elected).await;
        let elected = followed.map_err(|error| error.to_string())?.unwrap_or(Ok(None))?;
        let Some(revision) = elected else {
            election.resign().await;
            return Ok(End::Stopped);
        };
        let (leadership, tls) = (Leadership { revision, cluster }, self.config.etcd_tls());
        let open = move || EtcdStore::open(&location, tls, leadership, unix_ms());
        let opened = on_thread("accord-state", (), open).await.map_err(|error| error.to_string())?;
        let opened = match opened {
            Err(error) if error.is_of_state() => {
                election.resign().await;
                return Err(error.to_string());
            }
            Err(error) => return Ok(End::LeadsNoLonger(error.to_string())),
            Ok(opened) => opened,
        };
        let (driver, writer) = StateWriter::begin(self.settings, opened)?;
        tracing::warn!("this coordinator leads the cluster (epoch {})", writer.epoch());
        let lost = tokio::select! {
            served = self.serve(driver, stop) => {
                served?;
                None
            }
            why = election.lost() => Some(why),
        };
        match (lost, writer.superseded()) {
            (Some(why), _) => Ok(End::LeadsNoLonger(why)),
            (None, Some(why)) => Ok(End::LeadsNoLonger(why)),
            (None, None) => {
                let closed = writer.close();
                election.resign().await;
                closed.map(|()| End::Stopped)
            }
        }
    }

    fn attestation(&self) -> Attestation {
        let config = self.config;
        Attestation { munge: config.munge.clone(), token_review: config.api_server(), users: config.users.clone() }
    }
}

/// Starts this process anew, as a coordinator that follows: nothing of its time as leader is left. Returns why it can't.
pub(crate) fn follow_anew(why: &str) -> String {
    log::report_line(format_args!("accord-coordinator: {why}; it starts anew, and follows"));
    // Messages that wait would end with this program.
    drop(log::Flush);
    // A release is one program, which chooses its task by the first argument.
    let mut arguments = std::env::args_os();
    let name = arguments.next().unwrap_or_default();
    let error = Command::new(OWN_PROGRAM).arg0(name).args(arguments).exec();
    format!("it cannot start anew: {error}")
}
