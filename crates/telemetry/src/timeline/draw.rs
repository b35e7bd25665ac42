//! The layout as SVG text.

use super::layout::{DeviceRows, Layout, Row};
use super::scale::{Scale, bytes, duration, tick_ns};
use accord_types::{Count, Span, SpanKind, printable};
use std::fmt::Write as _;

const WIDTH: f64 = 1400.0;
const MARGIN: f64 = 24.0;
/// The left end of the time axis.
const PLOT_LEFT: f64 = 190.0;
const PLOT_WIDTH: f64 = WIDTH - PLOT_LEFT - MARGIN;
const TITLE_HEIGHT: f64 = 84.0;
const DEVICE_HEIGHT: f64 = 26.0;
const ROW_HEIGHT: f64 = 20.0;
const BAR_HEIGHT: f64 = 14.0;
const AXIS_HEIGHT: f64 = 40.0;
const GAP: f64 = 10.0;
const TICKS_MAX: u64 = 12;
/// Width of the narrowest bar: a narrower one would be invisible.
const BAR_WIDTH_MIN: f64 = 0.6;
/// Bars of one kind that are nearer than this become one.
const MERGE_WIDTH: f64 = 0.3;
/// Bars at least this wide carry their region's name.
const NAMED_WIDTH: f64 = 70.0;
const CHAR_WIDTH: f64 = 6.0;

const STYLE: &str = "text{font:12px system-ui,'DejaVu Sans',sans-serif;fill:#1f2933}\
.title{font-size:18px;font-weight:600}.device{font-weight:600}.dim{fill:#616e7c}\
.bar{fill:#fff;font-size:10px}.axis{stroke:#cbd2d9;stroke-width:1}.row{fill:#f5f7fa}";

/// Returns the colour of a kind, distinguishable by colour-blind people.
fn colour(kind: SpanKind) -> &'static str {
    match kind {
        SpanKind::Launch => "#0072b2",
        SpanKind::CopyIn => "#009e73",
        SpanKind::CopyOut => "#d55e00",
        SpanKind::Copy => "#7a6f9b",
        SpanKind::Push => "#cc79a7",
        SpanKind::Arrive => "#e69f00",
        SpanKind::Range => "#4d4d4d",
    }
}

pub(super) fn picture(layout: &Layout<'_>) -> String {
    let rows_height: f64 = layout.devices.iter().map(device_height).sum();
    let height = TITLE_HEIGHT + rows_height + AXIS_HEIGHT;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" \
         viewBox=\"0 0 {WIDTH} {height}\">\n<style>{STYLE}</style>\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n"
    );
    title(&mut svg, layout);
    legend(&mut svg);
    let scale = Scale::new(layout.start_ns, layout.end_ns, PLOT_LEFT, PLOT_WIDTH);
    axis(&mut svg, layout, &scale, TITLE_HEIGHT + rows_height);
    let mut top = TITLE_HEIGHT;
    for device in &layout.devices {
        grid(&mut svg, layout, &scale, top + DEVICE_HEIGHT, top + device_height(device) - GAP);
        draw_device(&mut svg, device, &scale, top);
        top += device_height(device);
    }
    svg.push_str("</svg>\n");
    svg
}

fn title(svg: &mut String, layout: &Layout<'_>) {
    let name = if layout.program.is_empty() { "timeline" } else { &layout.program };
    let length = layout.end_ns - layout.start_ns;
    let mut summary = if layout.launches == 0 && layout.bytes == 0 {
        "nothing ran".to_owned()
    } else {
        format!(
            "{} on {}: {} {}, {} moved",
            duration(length),
            Count(layout.devices.len(), "device"),
            layout.launches,
            if layout.launches == 1 { "launch" } else { "launches" },
            bytes(layout.bytes)
        )
    };
    if layout.lost > 0 {
        let _ = write!(summary, "; {} lost", Count(layout.lost as usize, "span"));
    }
    text(svg, MARGIN, 32.0, "title", "start", name);
    text(svg, MARGIN, 54.0, "dim", "start", &summary);
}

fn legend(svg: &mut String) {
    let mut x = WIDTH - MARGIN;
    for kind in SpanKind::ALL.into_iter().rev() {
        x -= CHAR_WIDTH * kind.name().len() as f64 + 14.0;
        text(svg, x, 31.0, "", "start", kind.name());
        x -= 18.0;
        let _ = writeln!(
            svg,
            "<rect x=\"{x:.1}\" y=\"21\" width=\"12\" height=\"12\" rx=\"2\" fill=\"{}\"/>",
            colour(kind)
        );
    }
}

/// Returns the times of the axis's ticks, from the start of the picture.
fn ticks(layout: &Layout<'_>) -> impl Iterator<Item = u64> {
    let length = layout.end_ns - layout.start_ns;
    let tick = tick_ns(length, TICKS_MAX);
    (0..=length / tick).map(move |number| number * tick)
}

fn axis(svg: &mut String, layout: &Layout<'_>, scale: &Scale, top: f64) {
    for ns in ticks(layout) {
        let label = if ns == 0 { "0".to_owned() } else { duration(ns) };
        text(svg, scale.x(layout.start_ns + ns), top + 16.0, "dim", "middle", &label);
    }
}

/// Draws lines at the axis's ticks behind a device's rows, but not behind its heading.
fn grid(svg: &mut String, layout: &Layout<'_>, scale: &Scale, top: f64, bottom: f64) {
    for ns in ticks(layout) {
        let x = scale.x(layout.start_ns + ns);
        let _ = writeln!(svg, "<line class=\"axis\" x1=\"{x:.1}\" y1=\"{top}\" x2=\"{x:.1}\" y2=\"{bottom}\"/>");
    }
}

fn device_height(device: &DeviceRows<'_>) -> f64 {
    DEVICE_HEIGHT + ROW_HEIGHT * device.rows.len() as f64 + GAP
}

fn draw_device(svg: &mut String, device: &DeviceRows<'_>, scale: &Scale, top: f64) {
    let line = top + 17.0;
    text(svg, MARGIN, line, "device", "start", &device.label);
    text(svg, PLOT_LEFT, line, "dim", "start", &device.name);
    let used = if device.rows.is_empty() {
        "idle".to_owned()
    } else {
        format!(
            "busy {} %: regions {} %, copies {} %",
            percent(device.busy),
            percent(device.launching),
            percent(device.copying)
        )
    };
    text(svg, WIDTH - MARGIN, line, "", "end", &used);
    let mut y = top + DEVICE_HEIGHT;
    for row in &device.rows {
        draw_row(svg, row, scale, y);
        y += ROW_HEIGHT;
    }
}

fn draw_row(svg: &mut String, row: &Row<'_>, scale: &Scale, top: f64) {
    text(svg, PLOT_LEFT - 10.0, top + 14.0, "dim", "end", &row.label);
    let y = top + (ROW_HEIGHT - BAR_HEIGHT) / 2.0;
    let _ = writeln!(
        svg,
        "<rect class=\"row\" x=\"{PLOT_LEFT}\" y=\"{y}\" width=\"{PLOT_WIDTH}\" height=\"{BAR_HEIGHT}\"/>"
    );
    for bar in bars(&row.spans, scale) {
        let width = (bar.right - bar.left).max(BAR_WIDTH_MIN);
        let _ = writeln!(
            svg,
            "<rect x=\"{:.2}\" y=\"{y}\" width=\"{width:.2}\" height=\"{BAR_HEIGHT}\" fill=\"{}\"><title>{}</title></rect>",
            bar.left,
            colour(bar.first.kind),
            escaped(&bar.describe())
        );
        if width >= NAMED_WIDTH && bar.count == 1 && !bar.first.name.is_empty() {
            let space = (width / CHAR_WIDTH) as usize - 2;
            let name: String = bar.first.name.chars().take(space).collect();
            text(svg, bar.left + 5.0, y + 10.5, "bar", "start", &name);
        }
    }
}

/// One or more spans of one kind that are drawn as one.
struct Bar<'a> {
    left: f64,
    right: f64,
    first: &'a Span,
    count: usize,
    bytes: u64,
    busy_ns: u64,
}

impl Bar<'_> {
    fn describe(&self) -> String {
        let Self { first, count, .. } = self;
        let name = if first.name.is_empty() { "" } else { &format!(" {}", first.name) };
        let mut text = if *count == 1 {
            format!("{}{name}, {}", first.kind.name(), duration(self.busy_ns))
        } else {
            format!("{count} x {}, {} in all", first.kind.name(), duration(self.busy_ns))
        };
        if self.bytes > 0 {
            let _ = write!(text, ", {}", bytes(self.bytes));
        }
        text
    }
}

fn bars<'a>(spans: &[&'a Span], scale: &Scale) -> Vec<Bar<'a>> {
    let mut bars: Vec<Bar<'a>> = Vec::new();
    for &span in spans {
        let (left, right) = (scale.x(span.start_ns), scale.x(span.end_ns));
        let busy_ns = span.end_ns.saturating_sub(span.start_ns);
        match bars.last_mut() {
            // Wide bars stay separate, because their names and times are readable.
            Some(last)
                if last.first.kind == span.kind
                    && left - last.right < MERGE_WIDTH
                    && (right - left < BAR_WIDTH_MIN * 2.0 || last.right - last.left < BAR_WIDTH_MIN * 2.0) =>
            {
                last.right = last.right.max(right);
                last.count += 1;
                last.bytes += span.bytes;
                last.busy_ns += busy_ns;
            }
            _ => bars.push(Bar { left, right, first: span, count: 1, bytes: span.bytes, busy_ns }),
        }
    }
    bars
}

fn percent(part: f64) -> u64 {
    (part * 100.0).round() as u64
}

fn text(svg: &mut String, x: f64, y: f64, class: &str, anchor: &str, content: &str) {
    let _ = writeln!(
        svg,
        "<text x=\"{x:.1}\" y=\"{y:.1}\" class=\"{class}\" text-anchor=\"{anchor}\">{}</text>",
        escaped(content)
    );
}

fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in printable(text).chars() {
        match c {
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '&' => escaped.push_str("&amp;"),
            '"' => escaped.push_str("&quot;"),
            c => escaped.push(c),
        }
    }
    escaped
}
