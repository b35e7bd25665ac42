//! The page in a real browser.

use super::rows::HOSTILE;
use super::site::{Site, admin};
use super::webdriver::{Browser, ENTER};
use accord_cluster::Input;
use accord_coordinator::service::AnonymousAccess;
use accord_scheduler::Input as Scheduled;
use accord_types::{DeviceId, NodeId};
use std::time::Duration;

const NODES: usize = 10_000;
const ROWS: &str = "document.querySelectorAll('#body tr').length";
const CELLS: &str = "[...document.querySelectorAll('#body td')].map((cell) => cell.textContent).join('|')";
const FITS: &str = "document.documentElement.scrollWidth <= window.innerWidth";

/// Names of users as the page shows them: signs that are not seen are replaced.
fn displayed(name: &str) -> String {
    let is_unseen = |sign: char| sign.is_control() || sign == '\u{202e}';
    name.chars().map(|sign| if is_unseen(sign) { '\u{fffd}' } else { sign }).collect()
}

fn follow(browser: &Browser, tab: &str) {
    browser.tab_to(&format!("focused.textContent === '{tab}'"));
    browser.press(&ENTER.to_string());
    browser.until(&format!("document.querySelector('#tabs [aria-current]').textContent === '{tab}'"));
}

#[test]
fn a_browser_shows_the_cluster_to_hands_without_a_mouse() {
    let Some(browser) = Browser::start() else { return };
    let site = Site::start(AnonymousAccess::Nothing);
    browser.resize(360, 740, "light");
    browser.open(&format!("http://{}/", site.page));
    browser.until("document.body.innerText.includes('accord page')");
    assert_eq!(browser.value(FITS), true);
    browser.picture("stranger-narrow");

    browser.resize(1280, 900, "light");
    browser.open(&site.address_for(admin()));
    browser.until("document.getElementById('empty').textContent === 'There are no such devices.'");
    assert_eq!(browser.text("location.pathname + location.search"), "/", "the code is not in the address");
    assert_eq!(browser.text("document.cookie"), "", "scripts do not see the cookie");
    browser.picture("no-nodes");

    site.nodes(3);
    for name in HOSTILE {
        site.open(name, name, "n1", Some("1:cpu"));
    }
    let device = DeviceId { node: NodeId(2), ordinal: 1 };
    let quarantine = Scheduled::Quarantine {
        device,
        reason: HOSTILE[0].into(),
        by: Some(HOSTILE[1].into()),
        charged: false,
        uuid: String::new(),
    };
    site.driver.input(Input::Schedule(quarantine));
    browser.until(&format!("{ROWS} === 6 && {CELLS}.includes('in quarantine for')"));
    assert!(browser.text(CELLS).contains(HOSTILE[0]), "{}", browser.text(CELLS));
    browser.picture("devices");

    browser.press(&super::webdriver::TAB.to_string());
    assert_eq!(browser.text("document.activeElement.textContent"), "Skip to the table");
    follow(&browser, "Jobs and queue");
    browser.until(&format!("{ROWS} === 4"));
    let jobs = browser.text(CELLS);
    assert!(HOSTILE.iter().all(|name| jobs.contains(&displayed(name))), "{jobs}");
    browser.picture("jobs");
    follow(&browser, "Users");
    browser.until(&format!("{ROWS} === 4"));
    assert_eq!(browser.value("document.querySelectorAll('#tables img, #tables b, #tables script').length"), 0);
    assert_eq!(browser.text("document.title"), "Accord", "no name has become a script");
    follow(&browser, "Use by account");
    browser.until(&format!("{ROWS} === 1"));
    browser.picture("usage");

    follow(&browser, "Nodes");
    browser.until(&format!("{ROWS} === 3"));
    browser.tab_to("focused.id === 'user'");
    browser.press(&format!("eva{ENTER}"));
    browser.until("document.getElementById('empty').hidden === false");
    assert!(browser.text("location.hash").contains("user=eva"));
    browser.value("history.back()");
    browser.until(&format!("{ROWS} === 3 && document.getElementById('user').value === ''"));

    for (table, rows) in [("nodes", 3), ("devices", 6), ("jobs", 4), ("users", 4)] {
        for scheme in ["light", "dark"] {
            browser.resize(360, 740, scheme);
            browser.value(&format!("location.hash = '#table={table}'"));
            browser.until(&format!("{ROWS} === {rows}"));
            assert_eq!(browser.value(FITS), true, "{table} on a narrow screen");
            browser.picture(&format!("{table}-narrow-{scheme}"));
        }
    }

    browser.resize(1280, 900, "dark");
    (4..=NODES).for_each(|number| site.node(&format!("n{number}")));
    browser.value("location.hash = '#table=devices'");
    browser.until("document.getElementById('range').textContent === '1 to 50 of 20,000'");
    assert_eq!(browser.value(ROWS), 50);
    browser.picture("many-nodes");
    browser.tab_to("focused.id === 'next'");
    browser.press(&ENTER.to_string());
    browser.until("document.getElementById('range').textContent === '51 to 100 of 20,000'");
    browser.tab_to("focused.id === 'last'");
    browser.press(&ENTER.to_string());
    browser.until(&format!(
        "document.getElementById('range').textContent === '19,951 to 20,000 of 20,000' && {ROWS} === 50"
    ));
    browser.until(&format!("{CELLS}.includes('n10000|1|')"));
    // A node ends while its row is seen.
    site.node_ends("n10000");
    browser.until(&format!("{CELLS}.includes('n10000|1|cpu|lost')"));
    assert_eq!(browser.text("document.getElementById('status').textContent"), "Live");
    browser.picture("many-nodes-end");
    let errors: Vec<String> = browser.errors().into_iter().filter(|error| !error.contains("403 (Forbidden)")).collect();
    assert!(errors.is_empty(), "{errors:#?}");

    drop(site);
    browser.until("document.getElementById('status').textContent.startsWith('No connection')");
    browser.picture("no-connection");
}

/// The first time at which the page has rows, in milliseconds since it was asked for.
const FIRST_ROWS: &str = "new MutationObserver(() => {
    if (document.querySelectorAll('#body tr').length === 50) window.firstRows ??= performance.now();
}).observe(document, { childList: true, subtree: true });";
/// Milliseconds from a click until the rows that it asks for are there.
const NEXT_ROWS: &str = "const range = document.getElementById('range'), begun = performance.now();
new MutationObserver((_, own) => {
    own.disconnect();
    done(performance.now() - begun);
}).observe(range, { childList: true, characterData: true, subtree: true });
document.getElementById('next').click();";
/// Rows are used for so long.
const BETWEEN_VIEWS: Duration = Duration::from_millis(1_100);

/// Prints what a user waits for, for benches/results.
#[test]
#[ignore = "long"]
fn windows_of_10_000_nodes_come_one_after_the_other() {
    let Some(browser) = Browser::start() else { return };
    let site = Site::start(AnonymousAccess::Nothing);
    site.nodes(NODES);
    browser.resize(1280, 900, "light");
    browser.open(&site.address_for(admin()));
    browser.begin_with(FIRST_ROWS);
    let (mut first, mut next) = (Vec::new(), Vec::new());
    for from in (0..20).map(|window| 50 * window) {
        std::thread::sleep(BETWEEN_VIEWS);
        browser.value(&format!("location.hash = '#table=devices&from={from}'"));
        browser.open_again();
        browser.until(&format!("window.firstRows > 0 && {ROWS} === 50"));
        first.push(browser.value("window.firstRows").as_f64().unwrap());
        std::thread::sleep(BETWEEN_VIEWS);
        next.push(browser.later(NEXT_ROWS).as_f64().unwrap());
        let range = format!("{} to {} of 20000", from + 51, from + 100);
        browser.until(&format!("document.getElementById('range').textContent.replaceAll(',', '') === '{range}'"));
    }
    for (what, mut times) in [("first view", first), ("next rows", next)] {
        times.sort_by(f64::total_cmp);
        println!(
            "{what}: median {:.1} ms, longest {:.1} ms: {times:.1?}",
            times[times.len() / 2],
            times[times.len() - 1]
        );
    }
}
