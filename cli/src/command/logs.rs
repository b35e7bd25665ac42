//! `accord logs`: what nodes have written about a session.

use crate::args::LogsArgs;
use crate::client::Coordinator;
use crate::failure::Result;
use crate::output::{print, report_line, show};
use accord_proto::v1::{NodeLog, SessionLogsReply};
use accord_types::{Count, natural_order};
use jiff::Timestamp;
use serde_json::{Value, json};

/// Runs `accord logs`.
pub(crate) fn logs(args: &LogsArgs) -> Result<u8> {
    let reply = in_order(Coordinator::required()?.session_logs(args.session)?);
    if args.json {
        print(&format!("{:#}\n", all_json(&reply)));
        return Ok(0);
    }
    reply.nodes.iter().for_each(|node| show(&text(node)));
    if !reply.silent.is_empty() {
        report_line(format_args!("no answer in time from {}", reply.silent.join(", ")));
    }
    Ok(0)
}

/// Sorts the nodes as all tables have them: n2 before n10.
fn in_order(mut reply: SessionLogsReply) -> SessionLogsReply {
    reply.nodes.sort_by(|a, b| natural_order(&a.node_name, &b.node_name));
    reply.silent.sort_by(|a, b| natural_order(a, b));
    reply
}

/// The lines of a node, for people.
fn text(node: &NodeLog) -> String {
    let mut text = match (node.dropped, node.lines.is_empty()) {
        (0, true) => format!("{}: nothing was written\n", node.node_name),
        (0, false) => String::new(),
        (dropped, _) => format!("{}: {} before are not kept\n", node.node_name, Count(dropped as usize, "line")),
    };
    for line in &node.lines {
        text += &format!("{} {}: {}\n", moment(line.unix_ms), node.node_name, line.text);
    }
    text
}

fn all_json(reply: &SessionLogsReply) -> Value {
    let node = |node: &NodeLog| {
        let lines: Vec<Value> =
            node.lines.iter().map(|line| json!({ "unix_ms": line.unix_ms, "text": line.text })).collect();
        json!({ "node": node.node_name, "dropped": node.dropped, "lines": lines })
    };
    json!({ "nodes": reply.nodes.iter().map(node).collect::<Vec<_>>(), "silent": reply.silent })
}

/// Returns a time in UTC, to the millisecond.
fn moment(unix_ms: u64) -> String {
    let known = i64::try_from(unix_ms).ok().and_then(|ms| Timestamp::from_millisecond(ms).ok());
    known.map_or_else(|| "?".to_owned(), |moment| format!("{moment:.3}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use accord_proto::v1::LogLine;

    #[test]
    fn nodes_stand_in_the_order_of_all_tables() {
        let nodes = ["n10", "n2"].map(|name| NodeLog { node_name: name.to_owned(), ..NodeLog::default() }).to_vec();
        let silent = ["n12", "n3"].map(str::to_owned).to_vec();
        let reply = in_order(SessionLogsReply { nodes, silent });
        assert_eq!(reply.nodes.iter().map(|node| &node.node_name[..]).collect::<Vec<_>>(), ["n2", "n10"]);
        assert_eq!(reply.silent, ["n3", "n12"]);
    }

    #[test]
    fn each_line_has_its_time_and_node() {
        let lines = vec![LogLine { unix_ms: 1_500, text: "the executor has ended".to_owned() }];
        let node = NodeLog { node_name: "h1".to_owned(), lines, dropped: 0 };
        assert_eq!(text(&node), "1970-01-01T00:00:01.500Z h1: the executor has ended\n");
        let cut = NodeLog { dropped: 7, ..node };
        assert!(text(&cut).starts_with("h1: 7 lines before are not kept\n1970-"));
        assert_eq!(text(&NodeLog { lines: Vec::new(), dropped: 0, ..cut }), "h1: nothing was written\n");
        assert_eq!(moment(u64::MAX), "?");
    }
}
