//! Which requests are answered, to whom, and with which headers.

use super::site::{SOON, Site, admin, eva, rows, tom};
use accord_coordinator::service::AnonymousAccess;
use std::io::{Read, Write};
use std::process::{Command, Stdio};
use std::time::Instant;

/// Paths that need a code where strangers see nothing.
const SHUT: [&str; 4] = ["/visitor", "/events", "/past", "/usage"];

#[test]
fn a_code_opens_the_page_once_and_to_its_user() {
    let site = Site::start(AnonymousAccess::Nothing);
    let url = site.address_for(eva());
    let path = url.strip_prefix(&format!("http://{}", site.page)).expect(&url);
    let code = path.strip_prefix("/enter?code=").expect(path);
    assert_eq!(code.len(), 64, "{code}");
    let entered = site.get(path, "");
    assert_eq!((entered.status, entered.header("location")), (303, Some("/")));
    let cookie = entered.header("set-cookie").unwrap();
    let (pair, attributes) = cookie.split_once("; ").unwrap();
    assert_eq!(attributes, "Path=/; Max-Age=43200; HttpOnly; SameSite=Strict");
    assert!(!cookie.contains(code), "the code is no cookie");
    let visitor = site.get("/visitor", pair).json();
    assert_eq!(visitor, serde_json::json!({ "name": "tenant eva", "user": "eva", "is_admin": false }));
    assert_eq!(site.get("/visitor", &format!("other=1; {pair}; x=y")).json(), visitor);
    // Another browser can't use it again, nor guess.
    let again = site.get(path, "");
    assert_eq!((again.status, again.header("set-cookie")), (403, None));
    assert!(again.body.contains("accord page"), "{}", again.body);
    let garbled = code.replace(|digit: char| digit.is_ascii_digit(), "a");
    for wrong in ["code=", &format!("code={garbled}"), "code=%00", "code=é"] {
        let refused = site.get(&format!("/enter?{wrong}"), "");
        assert!(matches!(refused.status, 400 | 403) && refused.header("set-cookie").is_none(), "{refused:?}");
    }
    for wrong in [code.to_owned(), format!("accord={code}"), "accord=".to_owned(), format!("accord={pair}")] {
        assert_eq!(site.get("/visitor", &wrong).status, 403, "{wrong}");
    }
    let visitor = site.get("/visitor", &site.cookie_of(admin())).json();
    assert_eq!(visitor, serde_json::json!({ "name": "admin root", "user": null, "is_admin": true }));
}

#[test]
fn unauthenticated_visitor_is_told_how_to_get_a_code() {
    let site = Site::start(AnonymousAccess::Nothing);
    let page = site.get("/", "");
    assert_eq!((page.status, page.header("content-type")), (403, Some("text/html; charset=utf-8")));
    assert!(page.body.contains("<code>accord page</code>"), "{}", page.body);
    for path in SHUT {
        let refused = site.get(path, "");
        assert_eq!(refused.status, 403, "{path}");
        assert!(refused.body.contains("run accord page"), "{}", refused.body);
    }
    assert_eq!(site.get("/page.css", "").status, 200);
}

#[test]
fn public_page_shows_unauthenticated_visitors_only_counts() {
    let site = Site::start(AnonymousAccess::Counts);
    site.node("secret-node");
    site.apply_policy("others-jobs = \"all\"\n[account.secret-account]\nusers = [\"*\"]\n");
    site.open("secret-user", "secret-program", "secret-node", Some("1:cpu"));
    site.open("secret-user", "secret-program", "secret-node", Some("2:cpu"));
    assert_eq!(site.get("/", "").status, 200);
    assert!(site.get("/visitor", "").json()["name"].is_null());
    for table in ["", "?table=nodes", "?table=devices", "?table=users", "?table=jobs&rows=9", "?table=nothing"] {
        let event = site.events(&format!("/events{table}"), "").next().unwrap();
        assert!(rows(&event).is_empty() && event["total"] == 0, "{event}");
        let summary = &event["summary"];
        assert_eq!((&summary["nodes_up"], &summary["devices"]), (&1.into(), &2.into()), "{event}");
        let jobs = |a: &str, b: &str| summary[a].as_u64().unwrap() + summary[b].as_u64().unwrap();
        assert_eq!((jobs("jobs_running", "others_running"), jobs("jobs_waiting", "others_waiting")), (1, 1));
        assert!(!event.to_string().contains("secret"), "{event}");
    }
    let past = site.get("/past", "");
    assert!(past.json()["samples"].is_array() && !past.body.contains("secret"), "{past:?}");
    assert_eq!(site.get("/usage", "").status, 403);
}

#[test]
fn only_get_of_this_host_by_this_page_is_answered() {
    let site = Site::start(AnonymousAccess::Nothing);
    let cookie = site.cookie_of(eva());
    let ask = |method: &str, path: &str, host: &str, more: &str| {
        let length = if method == "POST" { "Content-Length: 0\r\n" } else { "" };
        site.say(&format!(
            "{method} {path} HTTP/1.1\r\n{host}{more}{length}Cookie: {cookie}\r\nConnection: close\r\n\r\n"
        ))
    };
    let own = format!("Host: {}\r\n", site.page);
    assert_eq!(ask("GET", "/visitor", &own, "").status, 200);
    for method in ["POST", "PUT", "DELETE", "OPTIONS", "HEAD", "PATCH", "BREW"] {
        let refused = ask(method, "/visitor", &own, "");
        assert_eq!((refused.status, refused.header("allow")), (405, Some("GET")), "{method}");
    }
    // A code that is posted is still good.
    let url = site.address_for(eva());
    let (_, code) = url.split_once("code=").unwrap();
    assert_eq!(ask("POST", &format!("/enter?code={code}"), &own, "").status, 405);
    for host in ["evil.example", "evil.example:80", "127.0.0.1.evil.example", "localhost.evil.example:1", ""] {
        let refused = ask("GET", "/visitor", &format!("Host: {host}\r\n"), "");
        assert_eq!(refused.status, 421, "{host}");
        assert_eq!(ask("GET", &format!("/enter?code={code}"), &format!("Host: {host}\r\n"), "").status, 421);
    }
    assert_eq!(ask("GET", "/visitor", "", "").status, 400, "no host");
    assert_eq!(ask("GET", "/visitor", &format!("{own}Host: evil.example\r\n"), "").status, 400, "two hosts");
    assert_eq!(ask("GET", &format!("http://{}/visitor", site.page), &own, "").status, 400, "a proxy");
    assert_eq!(ask("GET", "/visitor", &format!("Host: localhost:{}\r\n", site.page.port()), "").status, 200);
    for origin in ["http://evil.example", "null", "http://127.0.0.1:1", "x"] {
        let more = format!("Origin: {origin}\r\n");
        assert_eq!(ask("GET", "/events", &own, &more).status, 403, "{origin}");
        assert_eq!(ask("GET", &format!("/enter?code={code}"), &own, &more).status, 403, "{origin}");
    }
    assert_eq!(ask("GET", "/visitor", &own, &format!("Origin: http://{}\r\n", site.page)).status, 200);
    for from in ["cross-site", "same-site", "nonsense"] {
        let more = format!("Sec-Fetch-Site: {from}\r\n");
        assert_eq!(ask("GET", "/visitor", &own, &more).status, 403, "{from}");
        assert_eq!(ask("GET", &format!("/enter?code={code}"), &own, &more).status, 403, "{from}");
        assert_eq!(ask("GET", "/", &own, &more).status, 200, "a link to the page");
    }
    assert_eq!(ask("GET", &format!("/enter?code={code}"), &own, "Sec-Fetch-Site: none\r\n").status, 303);
}

#[test]
fn all_answers_keep_other_sites_away() {
    let site = Site::start(AnonymousAccess::Nothing);
    let cookie = site.cookie_of(eva());
    let paths =
        ["/", "/page.css", "/page.js", "/words.js", "/chart.js", "/icon.svg", "/visitor", "/past", "/usage", "/x"];
    let wrong = site.say(&format!("POST / HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n", site.page));
    for answer in paths.map(|path| site.get(path, &cookie)).iter().chain([&wrong, &site.get("/", "")]) {
        let policy = answer.header("content-security-policy").unwrap();
        assert!(policy.starts_with("default-src 'none'; script-src 'self';"), "{policy}");
        assert!(!policy.contains("unsafe") && policy.contains("frame-ancestors 'none'"), "{policy}");
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
        assert_eq!(answer.header("referrer-policy"), Some("no-referrer"));
        assert_eq!(answer.header("cache-control"), Some("no-store"));
        assert_eq!(answer.header("access-control-allow-origin"), None);
    }
    assert_eq!(site.get("/x", &cookie).status, 404);
    // The policy allows no script in the page's own text.
    for page in [site.get("/", &cookie), site.get("/", "")] {
        let scripts = page.body.matches("<script").count();
        assert_eq!(scripts, page.body.matches("src=\"/page.js\"></script>").count(), "{}", page.body);
        let mut words = page.body.split([' ', '>', '\n']);
        let inline = words.find(|word| word.starts_with("style=") || word.starts_with("on") && word.contains('='));
        assert_eq!(inline, None);
    }
}

#[test]
fn nonsense_is_refused_and_the_page_goes_on() {
    let site = Site::start(AnonymousAccess::Nothing);
    let cookie = site.cookie_of(eva());
    let host = format!("Host: {}\r\nCookie: {cookie}\r\n", site.page);
    for path in ["/../etc/passwd", "/%2e%2e/x", "//", "/visitor/", "/events?table=%zz", "/usage?from=x", "/usage?x"] {
        let refused = site.get(path, &cookie);
        assert!(matches!(refused.status, 400 | 404), "{path}: {refused:?}");
    }
    let many: String = (0..100).map(|number| format!("X-{number}: 1\r\n")).collect();
    for (what, request) in [
        ("a long header", format!("GET / HTTP/1.1\r\n{host}X: {}\r\n\r\n", "x".repeat(64 << 10))),
        ("a long path", format!("GET /{} HTTP/1.1\r\n{host}\r\n", "x".repeat(64 << 10))),
        ("many headers", format!("GET / HTTP/1.1\r\n{host}{many}\r\n")),
        ("no HTTP", "\u{16}\u{3}\u{1}\u{2}\r\n\r\n".repeat(16)),
        ("a header without an end", format!("GET / HTTP/1.1\r\n{host}X\r\n\r\n")),
    ] {
        let mut stream = site.connect();
        // It may be closed before all is sent.
        let _ = stream.write_all(request.as_bytes());
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        let answer = String::from_utf8_lossy(&answer);
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 4"), "{what}: {answer}");
        assert_eq!(site.get("/visitor", &cookie).status, 200, "after {what}");
    }
}

#[test]
fn a_user_has_four_streams_and_strangers_crowd_out_no_user() {
    let site = Site::start(AnonymousAccess::Counts);
    let (eva, tom) = (site.cookie_of(eva()), site.cookie_of(tom()));
    let mut watched: Vec<_> = (0..4).map(|_| site.stream("/events?table=nodes", &eva)).collect();
    let refused = site.get("/events?table=nodes", &eva);
    assert_eq!(refused.status, 429);
    assert!(refused.body.contains("tenant eva has 4 calls of Watch"), "{}", refused.body);
    assert!(site.stream("/events?table=nodes", &tom).next().is_some());
    // More strangers than there is room for, which say nothing or read nothing.
    let silent: Vec<_> = (0..100).map(|_| site.connect()).collect();
    let mut anonymous_access: Vec<_> = (0..100).map(|_| site.stream("/events", "")).collect();
    assert!(anonymous_access.pop().unwrap().next().is_some());
    site.nodes(1);
    for events in &mut watched {
        events.until(|event| event["total"] == 1);
    }
    drop((watched, silent));
    let begin = Instant::now();
    while site.get("/visitor", &eva).status != 200 || is_refused(&site, &eva) {
        assert!(begin.elapsed() < SOON, "a place that is given back is there again");
    }
}

fn is_refused(site: &Site, cookie: &str) -> bool {
    let mut stream = site.connect();
    let request = format!("GET /events HTTP/1.1\r\nHost: {}\r\nCookie: {cookie}\r\n\r\n", site.page);
    stream.write_all(request.as_bytes()).unwrap();
    let mut status = [0; 12];
    stream.read_exact(&mut status).unwrap();
    &status != b"HTTP/1.1 200"
}

#[test]
fn the_process_shows_its_page_if_it_is_to() {
    let dir = tempfile::tempdir().unwrap();
    let start = |options: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_accord-coordinator"));
        command.arg("--socket").arg(dir.path().join("socket")).args(options).arg("--stop-on-stdin-eof");
        command.stdin(Stdio::null()).output().unwrap()
    };
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let displayed = text(&start(&["--page-listen", "127.0.0.1:0"]).stdout);
    assert!(displayed.contains("accord-coordinator shows its page at http://127.0.0.1:"), "{displayed}");
    let named = text(&start(&["--page-listen", "127.0.0.1:0", "--page-url", "https://accord.site/"]).stdout);
    assert!(named.contains("shows its page at https://accord.site\n"), "{named}");
    for options in [&[][..], &["--page", "public"], &["--page-listen", "127.0.0.1:0", "--page", "off"]] {
        let none = text(&start(options).stdout);
        assert!(none.contains("listening on") && !none.contains("page"), "{none}");
    }
    let clear = start(&["--page-listen", "0.0.0.0:0"]);
    assert!(!clear.status.success() && text(&clear.stderr).contains("in clear"), "{clear:?}");
}
