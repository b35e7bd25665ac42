//! Decides what the node measures, and when. The node measures itself once it has been quiet for a while, or when a
//! client asks. It measures paths to other nodes one at a time, on the coordinator's order. Admits expected
//! measurements of other agents.

use super::effect::{AgentReport, Effect};
use super::lanes::LanePath;
use super::measurements::{EXPECTED_FOR, EXPECTED_MAX, Expected, MeasurementStage, QUIET, REPORTED_LATER_MAX, VERSION};
use super::state::Node;
use accord_fabric::handshake::{Hello, check_secure};
use accord_types::{Error, ErrorCode, NodeFigures, PathTimes, Result, SessionId, SessionKey};
use std::time::Duration;

impl Node {
    /// Makes the measurement of the node due, because a client waits for it.
    pub fn measure_soon(&mut self) {
        match self.measuring.within {
            MeasurementStage::Never if self.measuring.figures.is_none() => {
                let note = "the agent was told not to measure (--measure off)".to_owned();
                let agent_version = VERSION.to_owned();
                self.measuring.figures = Some(NodeFigures { note, agent_version, ..NodeFigures::default() });
                self.measuring.figures_reported = false;
            }
            MeasurementStage::Due => self.measuring.hurries = true,
            MeasurementStage::Never | MeasurementStage::UnderWay | MeasurementStage::Done => {}
        }
    }

    /// Records the measurements within the node.
    pub fn measured(&mut self, figures: NodeFigures) {
        self.measuring.within = MeasurementStage::Done;
        self.measuring.figures = Some(NodeFigures { agent_version: VERSION.to_owned(), ..figures });
        self.measuring.figures_reported = false;
    }

    /// Returns the measurements within the node, if there are any.
    pub fn figures(&self) -> Option<&NodeFigures> {
        self.measuring.figures.as_ref()
    }

    /// Begins to measure a path for the coordinator. Returns `false` if another one is being measured, or measuring is
    /// off.
    pub fn begin_path(&mut self, measurement: u64) -> bool {
        if self.measuring.path.is_some() || self.measuring.within == MeasurementStage::Never {
            let why = "the agent measures another one, or was told not to (--measure off)".to_owned();
            self.report_later(AgentReport::PathMeasured { measurement, path: Err(why) });
            return false;
        }
        self.measuring.path = Some(measurement);
        true
    }

    /// Records the outcome of a path's measurement: its times one way, and its transport.
    pub fn path_measured(&mut self, measurement: u64, path: Result<(PathTimes, String), String>) {
        if self.measuring.path == Some(measurement) {
            self.measuring.path = None;
            self.report_later(AgentReport::PathMeasured { measurement, path });
        }
    }

    fn report_later(&mut self, word: AgentReport) {
        if self.measuring.outcomes.len() >= REPORTED_LATER_MAX {
            self.measuring.outcomes.pop_front();
        }
        self.measuring.outcomes.push_back(word);
    }

    /// Records that another agent is about to measure the path to this node.
    pub fn expect(&mut self, now: Duration, measurement: u64, key: SessionKey) {
        if self.measuring.expected.len() >= EXPECTED_MAX {
            self.measuring.expected.pop_front();
        }
        self.measuring.expected.push_back(Expected { measurement, key, end: now + EXPECTED_FOR });
    }

    /// Returns the key that the lane of an expected measurement must prove, or an error if none with this number is
    /// expected.
    pub(super) fn key_of_measurement(&self, now: Duration, measurement: SessionId) -> Result<SessionKey> {
        let known = self.measuring.expected.iter().find(|known| known.measurement == measurement.0 && now < known.end);
        known.map(|known| known.key).ok_or_else(not_expected)
    }

    /// Admits the lane of a measurement, whose key is proven, once and with the checks of a session's lane.
    ///
    /// # Errors
    /// Returns an error with the reason for the client.
    pub fn admit_measurement(&mut self, now: Duration, hello: &Hello, way: LanePath) -> Result<()> {
        if self.endpoint.as_ref().map(|endpoint| endpoint.node) != hello.to {
            let why = format!("this is node {}, and another one is meant", self.name);
            return Err(Error::new(ErrorCode::DeviceUnavailable, why));
        }
        check_secure(hello, way.leaves_machine, way.is_of_world || self.plain_tcp)?;
        let is_it = |known: &Expected| known.measurement == hello.session.0 && now < known.end;
        let at = self.measuring.expected.iter().position(is_it).ok_or_else(not_expected)?;
        self.measuring.expected.remove(at);
        Ok(())
    }

    /// Adds the due measurements and messages.
    pub(super) fn attend_measuring(&mut self, now: Duration, effects: &mut Vec<Effect>) {
        if !self.is_in() {
            // The next coordinator has no figures yet.
            self.measuring.figures_reported = false;
            return;
        }
        if !self.is_quiet() {
            self.measuring.busy = now;
        }
        let is_due = self.is_quiet() && (self.measuring.hurries || self.measuring.busy + QUIET <= now);
        if self.measuring.within == MeasurementStage::Due && is_due {
            self.measuring.within = MeasurementStage::UnderWay;
            effects.push(Effect::Measure);
        }
        if let Some(figures) = self.measuring.figures.as_ref().filter(|_| !self.measuring.figures_reported) {
            effects.push(Effect::Send(AgentReport::Measured(figures.clone())));
            self.measuring.figures_reported = true;
        }
        effects.extend(self.measuring.outcomes.drain(..).map(Effect::Send));
    }

    /// Checks the measurements, see [`Node::check_invariants`].
    pub(super) fn check_measuring(&self) -> Result<(), String> {
        let counts = (self.measuring.expected.len(), self.measuring.outcomes.len());
        let is_bounded = counts.0 <= EXPECTED_MAX && counts.1 <= REPORTED_LATER_MAX;
        is_bounded.then_some(()).ok_or_else(|| format!("measurements expected, and to be told: {counts:?}"))
    }
}

fn not_expected() -> Error {
    Error::new(ErrorCode::DeviceUnavailable, "no such measurement is expected")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::Disconnect;
    use accord_fabric::handshake::Purpose;
    use accord_fabric::peer::PeerId;
    use accord_fabric::route::Endpoint;
    use accord_types::NodeId;

    const KEY: SessionKey = SessionKey([7; SessionKey::LEN]);
    const HERE: LanePath = LanePath { leaves_machine: false, is_of_world: false };

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn node(measures: bool) -> Node {
        let mut node = Node::new("h1".to_owned(), false, measures);
        join(&mut node, ms(0));
        node
    }

    fn join(node: &mut Node, now: Duration) {
        node.poll(now, &mut Vec::new());
        node.registered(now, Endpoint::new(NodeId(3), "h1:1"), ms(500));
    }

    fn polled(node: &mut Node, now: u64) -> Vec<Effect> {
        let mut effects = node.poll(ms(now), &mut Vec::new());
        effects.retain(|effect| !matches!(effect, Effect::Send(AgentReport::Heartbeat(_))));
        node.check_measuring().unwrap();
        effects
    }

    #[test]
    fn the_node_is_measured_once_when_it_has_been_quiet_and_each_coordinator_is_told() {
        let mut node = node(true);
        assert_eq!(polled(&mut node, 999), []);
        assert_eq!(node.next(), Some(ms(1_000)));
        assert_eq!(polled(&mut node, 1_000), [Effect::Measure]);
        assert_eq!(polled(&mut node, 5_000), [], "it is under way");
        let figures = NodeFigures { kept: true, agent_version: VERSION.to_owned(), ..NodeFigures::default() };
        node.measured(figures.clone());
        assert_eq!(polled(&mut node, 5_001), [Effect::Send(AgentReport::Measured(figures.clone()))]);
        assert_eq!(polled(&mut node, 5_002), []);
        node.disconnected(ms(5_003), Disconnect::Unreachable(String::new()));
        polled(&mut node, 5_003);
        join(&mut node, ms(6_000));
        assert_eq!(polled(&mut node, 6_001), [Effect::Send(AgentReport::Measured(figures))]);
    }

    #[test]
    fn requested_measurement_starts_at_once_or_reports_that_it_is_off() {
        let mut on = node(true);
        on.measure_soon();
        assert_eq!(polled(&mut on, 1), [Effect::Measure]);
        let mut off = node(false);
        assert_eq!(polled(&mut off, 9_000), []);
        off.measure_soon();
        let effects = polled(&mut off, 9_001);
        assert!(
            matches!(&effects[..], [Effect::Send(AgentReport::Measured(reported))] if reported.note.contains("--measure off"))
        );
        assert!(!off.begin_path(1));
        assert!(matches!(&polled(&mut off, 9_002)[..], [Effect::Send(AgentReport::PathMeasured { path: Err(_), .. })]));
    }

    #[test]
    fn one_path_is_measured_at_a_time() {
        let mut node = node(true);
        assert!(node.begin_path(1) && !node.begin_path(2));
        node.path_measured(2, Err("never".to_owned()));
        let path = Ok((PathTimes::new(1, 2, 3), "tls".to_owned()));
        node.path_measured(1, path.clone());
        let reported = polled(&mut node, 1);
        assert!(
            matches!(&reported[0], Effect::Send(AgentReport::PathMeasured { measurement: 2, path: Err(_) })),
            "{reported:?}"
        );
        assert_eq!(reported[1..], [Effect::Send(AgentReport::PathMeasured { measurement: 1, path })]);
        assert!(node.begin_path(3));
    }

    #[test]
    fn a_measurement_that_comes_before_it_is_expected_waits_for_that() {
        let mut node = node(true);
        let key_of = |node: &Node, now| node.key_of(ms(now), Purpose::Measure, SessionId(1 << 63 | 5), ms(0));
        assert_eq!(key_of(&node, 0), Ok(None));
        let end = Node::key_within(ms(0)).as_millis().try_into().unwrap();
        assert_eq!(key_of(&node, end - 1), Ok(None));
        assert!(key_of(&node, end).is_err());
        node.expect(ms(1), 1 << 63 | 5, KEY);
        assert_eq!(key_of(&node, 2), Ok(Some(KEY)));
    }

    #[test]
    fn an_expected_measurement_is_let_in_once_and_soon() {
        let mut node = node(true);
        let id = SessionId(1 << 63 | 5);
        let hello = Hello { to: Some(NodeId(3)), ..Hello::new(Purpose::Measure, id, 0, PeerId::PROGRAM) };
        let key_of = |node: &Node, now, since| node.key_of(ms(now), Purpose::Measure, id, ms(since));
        node.expect(ms(0), id.0, KEY);
        assert_eq!(key_of(&node, 4_999, 4_999), Ok(Some(KEY)));
        assert!(key_of(&node, 5_000, 2_000).is_err());
        let elsewhere = Hello { to: Some(NodeId(4)), ..hello };
        assert!(node.admit_measurement(ms(1), &elsewhere, HERE).is_err());
        assert!(node.admit_measurement(ms(1), &hello, LanePath { leaves_machine: true, ..HERE }).is_err(), "in clear");
        assert_eq!(node.admit_measurement(ms(1), &hello, HERE), Ok(()));
        assert!(node.admit_measurement(ms(1), &hello, HERE).is_err(), "once");
        for number in 0..100 {
            node.expect(ms(1), number, KEY);
            node.check_measuring().unwrap();
        }
    }
}
