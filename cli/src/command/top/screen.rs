//! The screen of `accord top`.

use super::cells;
use super::state::Top;
use crate::output::{age, count};
use accord_proto::v1::WatchTable;
use accord_types::printable_lines;
use ratatui::buffer::Buffer;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Cell, Row, Table, Widget};

/// Lines above the table's rows: four of the summary, an empty one, and the table's heading.
const HEAD: u16 = 6;
/// The line with the keys.
const FOOT: u16 = 1;

/// Returns how many rows of the table fit on a screen.
pub(crate) fn fit(height: u16) -> u32 {
    u32::from(height.saturating_sub(HEAD + FOOT)).max(1)
}

/// Draws the screen, with control characters of names and texts escaped.
pub(crate) fn draw(top: &Top, area: Rect, screen: &mut Buffer) {
    let parts = Layout::vertical([Constraint::Length(HEAD - 1), Constraint::Min(1), Constraint::Length(FOOT)]);
    let [head, table, foot] = parts.areas(area);
    if top.rows.table.is_some() {
        for (line, place) in summary(top).into_iter().zip(head.rows()) {
            line.render(place, screen);
        }
        body(top).render(table, screen);
    } else {
        Line::from(format!("accord top  asks the coordinator {}", top.coordinator)).render(head, screen);
    }
    keys(top).render(foot, screen);
}

fn bold(text: &str) -> Span<'static> {
    Span::styled(printable_lines(text).into_owned(), Style::new().add_modifier(Modifier::BOLD))
}

/// Lists numbers with their names, without those that are 0.
fn some(parts: &[(u32, &str)]) -> String {
    let parts: Vec<String> =
        parts.iter().filter(|(number, _)| *number > 0).map(|(number, what)| format!("{number} {what}")).collect();
    if parts.is_empty() { "none".to_owned() } else { parts.join(", ") }
}

fn summary(top: &Top) -> Vec<Line<'static>> {
    let all = &top.rows.summary;
    let up = age(top.unix_ms().saturating_sub(all.started_unix_ms));
    let only = if top.user.is_empty() { String::new() } else { format!(", rows of user {}", top.user) };
    let first = format!("  coordinator {}, up {up}{only}", top.coordinator);
    let nodes = some(&[(all.nodes_up, "up"), (all.nodes_draining, "draining"), (all.nodes_away, "away")]);
    let devices = some(&[
        (all.devices_busy, "busy"),
        (all.devices_unknown, "unknown"),
        (all.devices_idle, "held but idle"),
        (all.devices_out, "out of use"),
    ]);
    let devices = if devices == "none" { String::new() } else { format!(": {devices}") };
    let mut nodes = format!("nodes: {nodes}; {}", count(all.sessions.into(), "session"));
    if all.paused {
        nodes.push_str("; all starts are paused");
    }
    let mut jobs = format!("jobs: {}", some(&[(all.jobs_running, "running"), (all.jobs_waiting, "waiting")]));
    if all.others_running + all.others_waiting > 0 {
        let others = some(&[(all.others_running, "running"), (all.others_waiting, "waiting")]);
        jobs.push_str(&format!("; of other users {others}"));
    }
    vec![
        Line::from(vec![bold("accord top"), Span::raw(printable_lines(&first).into_owned())]),
        Line::from(nodes),
        Line::from(format!("{}{devices}", count(all.devices.into(), "device"))),
        Line::from(jobs),
    ]
}

fn keys(top: &Top) -> Line<'static> {
    if let Some(problem) = &top.problem {
        return Line::from(bold(&problem.replace('\n', " ")));
    }
    let rows = &top.rows;
    let displayed = rows.from + u32::try_from(rows.lines.len()).unwrap_or(u32::MAX);
    let place = match rows.total {
        total if total as usize > rows.lines.len() => format!("rows {}-{displayed} of {total}  ", rows.from + 1),
        _ => String::new(),
    };
    Line::from(format!("{place}d devices  n nodes  u users  j jobs  s sort: {}  q quit", top.sort.word()))
}

/// Returns the table with the received rows.
fn body(top: &Top) -> Table<'static> {
    let table = top.rows.table.unwrap_or(WatchTable::Unspecified);
    let columns = cells::columns(table);
    let rows: Vec<Vec<String>> =
        top.rows.lines.iter().flatten().map(|line| cells::cells(line, top.unix_ms())).collect();
    let cell = |text: &str, is_number: bool| {
        let line = Line::from(printable_lines(text).replace('\n', " "));
        Cell::from(if is_number { line.right_aligned() } else { line })
    };
    let widths = columns.iter().enumerate().map(|(at, column)| {
        // No wider than its entries; the last column gets the rest.
        let longest = rows.iter().filter_map(|row| row.get(at)).map(|text| Span::raw(text).width()).max();
        let width = longest.unwrap_or(0).max(column.title.len()).min(column.max);
        match u16::try_from(width) {
            Ok(width) if at + 1 < columns.len() => Constraint::Length(width),
            _ => Constraint::Fill(1),
        }
    });
    let widths: Vec<Constraint> = widths.collect();
    let heading = Row::new(columns.iter().map(|column| cell(column.title, column.is_number)));
    let rows =
        rows.iter().map(|row| Row::new(row.iter().zip(columns).map(|(text, column)| cell(text, column.is_number))));
    Table::new(rows.collect::<Vec<_>>(), widths).header(heading.style(Style::new().add_modifier(Modifier::REVERSED)))
}

/// Returns the lines of a screen that shows all rows, for `--once`.
pub(crate) fn text(top: &Top, width: u16) -> String {
    let rows = u16::try_from(top.rows.lines.len()).unwrap_or(u16::MAX);
    let height = rows.min(u16::MAX - HEAD - FOOT) + HEAD;
    let area = Rect::new(0, 0, width, height + FOOT);
    let mut screen = Buffer::empty(area);
    draw(top, area, &mut screen);
    let line = |y| {
        let cells = (0..width).filter_map(|x| screen.cell((x, y)));
        let line: String = cells.map(|cell| cell.symbol()).collect();
        format!("{}\n", line.trim_end())
    };
    (0..height).map(line).collect()
}
