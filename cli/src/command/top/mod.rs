//! `accord top`: the present nodes, devices, users and jobs.

mod cells;
mod json;
mod rows;
mod screen;
mod state;
#[cfg(test)]
mod tests;

pub(crate) use state::{Sort, View};

use crate::client::{Coordinator, Watching, WholeTable};
use crate::failure::{Failure, Result};
use crate::output::print;
use crate::top_args::TopArgs;
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use rows::Rows;
use state::{Act, Key, Top};
use std::io::{self, IsTerminal};
use std::time::{Duration, Instant};

/// Longest delay of a key or a reply.
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// Interval in which ages on the screen are updated.
const DRAW_EVERY: Duration = Duration::from_secs(1);
/// Columns of the output if it does not go to a terminal.
const COLUMNS: u16 = 80;

/// Runs `accord top`.
pub(crate) fn top(args: &TopArgs) -> Result<u8> {
    let coordinator = Coordinator::required()?;
    let top = Top::new(coordinator.address(), args.by, args.sort, args.user.as_deref().unwrap_or_default());
    if args.json {
        return print_json(coordinator, top);
    }
    if args.once {
        return print_table(coordinator, top);
    }
    if !io::stdout().is_terminal() || !io::stdin().is_terminal() {
        return Err(Failure::usage("accord top needs a terminal; --once prints one table, --json all of them"));
    }
    watch(coordinator, top)
}

fn print_table(mut coordinator: Coordinator, mut top: Top) -> Result<u8> {
    top.rows = Rows::whole(top.view.table(), coordinator.table(&top.request())?);
    let width = if io::stdout().is_terminal() { ratatui::crossterm::terminal::size().ok() } else { None };
    print(&screen::text(&top, width.map_or(COLUMNS, |(columns, _)| columns)));
    Ok(0)
}

fn print_json(mut coordinator: Coordinator, mut top: Top) -> Result<u8> {
    let mut tables: Vec<WholeTable> = Vec::new();
    for view in View::ALL {
        top.view = view;
        tables.push(coordinator.table(&top.request())?);
    }
    print(&format!("{:#}\n", json::json(coordinator.address(), &tables)));
    Ok(0)
}

fn watch(coordinator: Coordinator, mut top: Top) -> Result<u8> {
    let failed = |error: io::Error| Failure::system("can't use the terminal", error);
    let (_, height) = ratatui::crossterm::terminal::size().map_err(failed)?;
    top.resize(screen::fit(height));
    let watching = coordinator.watch(top.request())?;
    let mut terminal = ratatui::try_init().map_err(failed)?;
    let ended = show(&mut terminal, &watching, &mut top);
    let restored = ratatui::try_restore();
    ended.and(restored).map_err(failed)?;
    Ok(0)
}

/// Displays the cluster until the user quits.
fn show(terminal: &mut DefaultTerminal, watching: &Watching, top: &mut Top) -> io::Result<()> {
    let (mut received, mut drawn) = (Instant::now(), None::<Instant>);
    loop {
        for reply in watching.received() {
            match reply {
                Ok(reply) => {
                    received = Instant::now();
                    top.take(reply);
                }
                Err(error) => top.problem = Some(error.to_string()),
            }
            drawn = None;
        }
        top.age_ms = u64::try_from(received.elapsed().as_millis()).unwrap_or(u64::MAX);
        if drawn.is_none_or(|drawn| drawn.elapsed() >= DRAW_EVERY) {
            let mut fit = 0;
            terminal.draw(|frame| {
                let area = frame.area();
                fit = screen::fit(area.height);
                screen::draw(top, area, frame.buffer_mut());
            })?;
            drawn = Some(Instant::now());
            if top.resize(fit) == Act::Ask {
                watching.ask(top.request());
            }
        }
        if !event::poll(POLL_INTERVAL)? {
            continue;
        }
        let act = match event::read()? {
            Event::Key(pressed) if pressed.kind == KeyEventKind::Press => {
                let interrupts =
                    pressed.modifiers.contains(KeyModifiers::CONTROL) && pressed.code == KeyCode::Char('c');
                if interrupts { Act::Quit } else { key(pressed.code).map_or(Act::Nothing, |key| top.key(key)) }
            }
            _ => Act::Nothing,
        };
        match act {
            Act::Quit => return Ok(()),
            Act::Ask => watching.ask(top.request()),
            Act::Nothing => {}
        }
        drawn = None;
    }
}

fn key(code: KeyCode) -> Option<Key> {
    Some(match code {
        KeyCode::Char(letter) => Key::Char(letter),
        KeyCode::Esc => Key::Char('q'),
        KeyCode::Up => Key::Up,
        KeyCode::Down => Key::Down,
        KeyCode::PageUp => Key::PageUp,
        KeyCode::PageDown => Key::PageDown,
        KeyCode::Home => Key::Home,
        KeyCode::End => Key::End,
        _ => return None,
    })
}
