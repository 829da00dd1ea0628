//! Users, tokens and rules of a monitor: who may do what, and what a browser or a stranger cannot make of it.

use std::fs::Permissions;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::sync::{Arc, Mutex};

use access::{MaySet, PrincipalName, Role};
use identity::{Cost, Folder, PasswordHash, Secret, User};
use monitor::{MonitorConfig, MonitorHandle, Tls};
use serde_json::{Value, json};
use support::http::Answer;
use support::{WATCHDOG, Watchdog, wait_until};
use tungstenite::client::IntoClientRequest;
use tungstenite::{Message, WebSocket};

use crate::scene::{Feed, ask_as, bus, get, has_data, listed, node, start};
use crate::tls::Client;

const PASSWORD: &str = "correct horse battery";
/// Everybody reads `lab`, operators steer and derive there.
const RULES: &str =
    "deny anyone read lab/secret\nallow anyone read lab/**\nallow role:operator steer,derive lab/**\n";

/// A folder with the operator `ada` and the viewer `bob`.
pub(crate) struct Access {
    folder: Folder,
    files: tempfile::TempDir,
}

impl Access {
    pub(crate) fn new(rules: Option<&str>) -> Self {
        let files = tempfile::tempdir().unwrap();
        let folder = Folder::new(files.path());
        for (name, role) in [("ada", Role::Operator), ("bob", Role::Viewer)] {
            let password = PasswordHash::new(&secret(PASSWORD), Cost::Least).unwrap();
            folder.change_users(|users| users.add(named(name), User::new(role, password))).unwrap();
        }
        let access = Self { folder, files };
        if let Some(rules) = rules {
            access.rule(rules);
        }
        access
    }

    /// Replaces the rules by another file, with a mode of its own: neither the umask nor the clock's ticks matter.
    fn rule(&self, rules: &str) {
        let draft = self.files.path().join("draft");
        std::fs::write(&draft, rules).unwrap();
        std::fs::set_permissions(&draft, Permissions::from_mode(0o644)).unwrap();
        std::fs::rename(draft, self.folder.rules_path()).unwrap();
    }

    pub(crate) fn token(&self, name: &str, scopes: &str) -> Secret {
        let scopes: MaySet = scopes.parse().unwrap();
        self.folder.change_tokens(|tokens| tokens.issue(named(name), scopes, None)).unwrap()
    }

    pub(crate) fn monitor(&self, configure: impl FnOnce(&mut MonitorConfig)) -> MonitorHandle {
        let mut config = MonitorConfig::new(node(&bus()));
        config.access = Some(self.files.path().to_owned());
        configure(&mut config);
        start(config)
    }
}

fn secret(text: &str) -> Secret {
    Secret::new(text.to_owned())
}

fn named(name: &str) -> PrincipalName {
    name.parse().unwrap()
}

/// Asks as a page of this server would, with a cookie.
pub(crate) fn as_page(address: SocketAddr, line: &str, cookie: &str, body: &str) -> Answer {
    let head = format!(
        "{line} HTTP/1.1\r\nHost: {address}\r\nOrigin: http://{address}\r\nSec-Fetch-Site: same-origin\r\n\
         Content-Type: application/json\r\nCookie: {cookie}"
    );
    ask_as(address, &head, body)
}

fn with_token(address: SocketAddr, line: &str, token: &str, body: &str) -> Answer {
    ask_as(address, &format!("{line} HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {token}"), body)
}

/// Signs in with this cookie before; returns the new one.
pub(crate) fn sign_in(address: SocketAddr, before: &str, user: &str) -> String {
    let body = json!({"user": user, "password": PASSWORD}).to_string();
    let answer = as_page(address, "POST /api/sign-in", before, &body);
    assert_eq!(answer.status, 204, "{answer:?}");
    cookie_of(&answer).to_owned()
}

fn cookie_of(answer: &Answer) -> &str {
    let line = answer.head.lines().find_map(|line| line.strip_prefix("set-cookie: ")).unwrap();
    line.split(';').next().unwrap()
}

fn session(address: SocketAddr, cookie: &str) -> Value {
    as_page(address, "GET /api/session", cookie, "").json()
}

fn count(address: SocketAddr, reason: &str) -> u64 {
    let metrics = get(address, "/metrics");
    let line = format!(r#"tallycast_monitor_access_refused_total{{reason="{reason}"}} "#);
    let value = metrics.text().lines().find_map(|it| it.strip_prefix(&line)).unwrap_or("0");
    value.parse::<f64>().unwrap() as u64
}

#[test]
fn everything_that_shows_a_stream_shows_those_that_may_be_read() {
    let access = Access::new(Some(RULES));
    let bus = bus();
    let monitor = access.monitor(|config| config.node = node(&bus));
    let address = monitor.address();
    let _feeds = ["lab/open", "lab/secret"].map(|name| Feed::start(&bus, name, 0.0, |index| index as f64));
    listed(address, "lab/open", has_data);
    let all = access.token("all", "read");
    wait_until("the token", || {
        (with_token(address, "GET /api/session", all.reveal(), "").status == 200).then_some(())
    });
    // A token is bound by the rules, too.
    access.rule(&format!("allow token:all read **\n{RULES}"));
    wait_until("both", || {
        let answer = with_token(address, "GET /api/streams", all.reveal(), "").json();
        (answer["streams"].as_array().unwrap().len() == 2).then_some(())
    });
    let streams = get(address, "/api/streams").json();
    let names: Vec<_> = streams["streams"].as_array().unwrap().iter().map(|it| &it["stream"]).collect();
    assert_eq!(names, ["lab/open"]);
    assert!(!get(address, "/metrics").text().contains("lab/secret"));
    for (path, stream) in [("account", "stream=S"), ("gaps", "stream=S"), ("range", "stream=S&channel=x")] {
        let open = format!("/api/{path}?{}", stream.replace('S', "lab/open"));
        assert_eq!(get(address, &open).status, 200, "{open}");
        let closed = format!("/api/{path}?{}", stream.replace('S', "lab/secret"));
        let refused = get(address, &closed);
        assert_eq!(refused.status, 401, "{closed}");
        let rule = refused.json()["rule"].as_str().unwrap().to_owned();
        assert!(rule.contains("line 2") && rule.contains("deny anyone read lab/secret"), "{rule}");
    }
    assert_eq!(get(address, "/api/preview.png?stream=lab/secret&channel=x").status, 401);
    assert_eq!(count(address, "line 2"), 4);
    let told = |cookie: &str| session(address, cookie)["may"]["read"]["why"].as_str().unwrap().to_owned();
    assert_eq!(told(""), "denied by line 2", "no name of a stream that a stranger may not read");
    let derive = r#"{"name":"lab/new","expression":"a","inputs":{"a":"lab/secret:x"},"unit":"V"}"#;
    let ada = sign_in(address, "", "ada");
    assert!(told(&ada).contains("lab/secret"), "{}", told(&ada));
    assert_eq!(as_page(address, "POST /api/derive", &ada, derive).status, 403, "its input may not be read");
    let elsewhere = derive.replace("lab/new", "hall/new").replace("lab/secret", "lab/open");
    assert_eq!(as_page(address, "POST /api/derive", &ada, &elsewhere).status, 403);
    let allowed = derive.replace("lab/secret", "lab/open");
    assert_eq!(as_page(address, "POST /api/derive", &ada, &allowed).status, 200);
    let taken = allowed.replace("lab/new", "lab/open");
    assert_eq!(as_page(address, "POST /api/derive", &ada, &taken).status, 403, "another publisher's name");
    let join = r#"{"pattern":"lab/secret"}"#;
    assert!(
        as_page(address, "POST /api/join", &ada, join).text().contains("lab/secret"),
        "whoever may steer it"
    );
    let patterns = get(address, "/api/patterns").json();
    assert_eq!(patterns, json!(["**"]), "no name of a stream that may not be read");
    // On the socket, too: the list, the account and the trace.
    let mut page = open_page(address, "", &format!("http://{address}")).unwrap();
    page.send(Message::text(r#"{"type":"watch_account","stream":"lab/secret"}"#)).unwrap();
    let mut seen = String::new();
    while !seen.contains("may not read `lab/secret`") {
        if let Message::Text(text) = page.read().unwrap() {
            assert!(!text.contains(r#""stream":"lab/secret""#), "{text}");
            seen = text.to_string();
        }
    }
}

#[test]
fn a_graph_that_is_replaced_keeps_the_nodes_that_its_visitor_may_not_see() {
    let access = Access::new(Some(RULES));
    let thin = |name: &str| json!({"name": name, "kind": "thin", "input": "lab/x", "every": 10});
    let hidden = serde_json::from_value(thin("lab/secret")).unwrap();
    let monitor = access.monitor(|config| config.nodes = vec![hidden]);
    let address = monitor.address();
    let ada = sign_in(address, "", "ada");
    let send = |nodes: &[Value]| {
        as_page(
            address,
            "PUT /api/graph HTTP/1.1\r\nIf-Match: *\r\nUnused:",
            &ada,
            &json!({"node": nodes}).to_string(),
        )
    };
    let changed = send(&[thin("lab/open")]);
    assert_eq!(changed.status, 200, "{}", changed.text());
    assert_eq!(changed.json()["added"], json!(["lab/open"]));
    for names in ["kept", "changed", "removed", "streams"] {
        assert_eq!(changed.json()[names], json!([]), "{names}");
    }
    // All that are refused are told.
    let refused = send(&[thin("hall/a"), thin("lab/open"), thin("hall/b")]);
    let problems = refused.json()["problems"].clone();
    assert_eq!(
        (refused.status, &problems[0]["node"], &problems[1]["node"]),
        (403, &json!("hall/a"), &json!("hall/b"))
    );
    assert!(
        problems[0]["error"].as_str().unwrap().starts_with("user:ada may not derive `hall/a`"),
        "{problems}"
    );
    access.rule("allow anyone read lab/**\n");
    let nodes = wait_until("both", || {
        let graph = get(address, "/api/graph").json();
        let names: Vec<_> = graph["nodes"].as_array().unwrap().iter().map(|it| it["name"].clone()).collect();
        (names.len() == 2).then_some(names)
    });
    assert_eq!(nodes, [json!("lab/open"), json!("lab/secret")]);
}

#[test]
fn a_role_decides_what_may_be_changed_and_the_refusal_names_the_rule() {
    let access = Access::new(Some(RULES));
    let monitor = access.monitor(|_| ());
    let address = monitor.address();
    let join = r#"{"pattern":"lab/x"}"#;
    let anyone = as_page(address, "POST /api/join", "", join);
    assert_eq!(anyone.status, 401);
    assert!(anyone.head.contains("www-authenticate: Bearer"), "{}", anyone.head);
    let (ada, bob) = (sign_in(address, "", "ada"), sign_in(address, "", "bob"));
    let refused = as_page(address, "POST /api/join", &bob, join);
    assert_eq!(
        (refused.status, refused.json()["error"].as_str()),
        (403, Some("user:bob may not steer `lab/x`"))
    );
    assert!(refused.json()["rule"].as_str().unwrap().contains("no line"), "{}", refused.json());
    assert_eq!(as_page(address, "POST /api/join", &ada, join).status, 200);
    assert_eq!(as_page(address, "POST /api/join", &ada, r#"{"pattern":"hall/x"}"#).status, 403);
    assert_eq!(
        as_page(address, "POST /api/join", &ada, r#"{"pattern":"**"}"#).status,
        403,
        "not with all streams"
    );
    assert_eq!(as_page(address, "POST /api/inject", &ada, r#"{"probability":0.1}"#).status, 403);
    let shown = session(address, &ada);
    assert_eq!((shown["principal"].as_str(), shown["signed_in"].as_bool()), (Some("user:ada"), Some(true)));
    assert_eq!(
        (&shown["may"]["steer"]["some"], &shown["may"]["steer"]["all"]),
        (&json!(true), &json!(false))
    );
    assert!(count(address, "no line") >= 4);
}

#[test]
fn beyond_loopback_nothing_is_read_or_changed_without_a_role() {
    let access = Access::new(None);
    let mut config = MonitorConfig::new(node(&bus()));
    (config.listen, config.insecure, config.tls) = ("0.0.0.0:0".parse().unwrap(), true, Tls::Off);
    config.access = Some(access.files.path().to_owned());
    let monitor = monitor::start(config).unwrap();
    let address = SocketAddr::from(([127, 0, 0, 1], monitor.address().port()));
    assert_eq!(monitor.page(), format!("http://localhost:{}/", address.port()));
    for path in ["/api/streams", "/api/patterns", "/api/derived", "/api/inject", "/metrics", "/api/live"] {
        assert_eq!(get(address, path).status, 401, "{path}");
    }
    assert_eq!((get(address, "/healthz").status, get(address, "/").status), (200, 200), "without data");
    let shown = session(address, "");
    assert_eq!((shown["insecure"].as_bool(), shown["can_sign_in"].as_bool()), (Some(true), Some(true)));
    let token = access.token("prometheus", "read");
    let metrics = wait_until("the token", || {
        let answer = with_token(address, "GET /metrics", token.reveal(), "");
        (answer.status == 200).then_some(answer)
    });
    assert!(metrics.text().contains("tallycast_monitor_insecure{} 1"), "{}", metrics.text());
    assert_eq!(
        with_token(address, "POST /api/join", token.reveal(), r#"{"pattern":"lab/x"}"#).status,
        403,
        "its scope"
    );
    let ada = sign_in(address, "", "ada");
    assert_eq!(as_page(address, "GET /api/streams", &ada, "").json()["server"]["insecure"], true);
    assert_eq!(as_page(address, "POST /api/join", &ada, r#"{"pattern":"lab/**"}"#).status, 200);
    // Another token, or none of that name any more.
    assert_eq!(with_token(address, "GET /healthz", "tallycast_no", "").status, 401);
    access.folder.change_tokens(|tokens| tokens.remove(&named("prometheus"))).unwrap();
    wait_until("the token's end", || {
        (with_token(address, "GET /metrics", token.reveal(), "").status == 401).then_some(())
    });
}

#[test]
fn a_session_known_before_the_sign_in_is_worth_nothing_after_it() {
    let access = Access::new(Some(RULES));
    let monitor = access.monitor(|_| ());
    let address = monitor.address();
    let name = format!("tallycast-{}", address.port());
    // One that somebody else chose, and one that somebody else had.
    let planted = format!("{name}={}", "0".repeat(64));
    let (before, after) = (sign_in(address, "", "bob"), sign_in(address, &planted, "ada"));
    assert_ne!(after, planted);
    assert_eq!(session(address, &planted)["signed_in"], false);
    let changed = sign_in(address, &before, "ada");
    assert_ne!(changed, before);
    assert_eq!(session(address, &before)["signed_in"], false);
    assert_eq!(session(address, &changed)["principal"], "user:ada");
    let answer = as_page(address, "POST /api/sign-out", &changed, "");
    assert!(answer.head.contains("Max-Age=0"), "{}", answer.head);
    assert_eq!(session(address, &changed)["signed_in"], false);
    assert_eq!(session(address, &after)["signed_in"], true, "another browser of the same user");
}

#[test]
fn another_page_can_change_nothing_with_a_users_cookie() {
    let access = Access::new(None);
    let monitor = access.monitor(|_| ());
    let address = monitor.address();
    let ada = sign_in(address, "", "ada");
    let join = |headers: &str| {
        let head = format!("POST /api/join HTTP/1.1\r\nHost: {address}\r\nCookie: {ada}{headers}");
        ask_as(address, &head, r#"{"pattern":"lab/x"}"#).status
    };
    assert_eq!(join(&format!("\r\nOrigin: http://{address}")), 200);
    for headers in [
        String::new(),
        "\r\nOrigin: null".to_owned(),
        "\r\nOrigin: http://evil.example".to_owned(),
        format!("\r\nOrigin: http://{address}\r\nSec-Fetch-Site: same-site"),
        format!("\r\nOrigin: http://{address}\r\nSec-Fetch-Site: cross-site"),
    ] {
        assert_eq!(join(&headers), 403, "{headers}");
    }
    assert_eq!(count(address, "origin"), 5);
    // A name that leads here too, as by DNS rebinding.
    let head = format!("GET /api/streams HTTP/1.1\r\nHost: evil.example\r\nCookie: {ada}");
    assert_eq!(ask_as(address, &head, "").status, 403);
    assert_eq!(count(address, "host"), 1);
    for origin in ["http://evil.example", "null", ""] {
        assert!(open_page(address, &ada, origin).is_none(), "a socket from {origin:?}");
    }
    assert!(open_page(address, &ada, &format!("http://{address}")).is_some());
    // A form can send no such type.
    let form = format!("POST /api/sign-in HTTP/1.1\r\nHost: {address}\r\nContent-Type: text/plain");
    assert_eq!(ask_as(address, &form, &json!({"user": "ada", "password": PASSWORD}).to_string()).status, 400);
}

fn open_page(address: SocketAddr, cookie: &str, origin: &str) -> Option<WebSocket<TcpStream>> {
    let mut request = format!("ws://{address}/api/live").into_client_request().unwrap();
    for (name, value) in [("Cookie", cookie), ("Origin", origin)] {
        if !value.is_empty() {
            request.headers_mut().insert(name, value.parse().unwrap());
        }
    }
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(WATCHDOG)).unwrap();
    tungstenite::client(request, stream).ok().map(|(socket, _)| socket)
}

/// Code of a close frame: a policy is violated (RFC 6455 §7.4.1).
const POLICY: u16 = 1008;

/// Reads until the server closes the connection, and returns code and reason.
fn end_of(mut page: WebSocket<TcpStream>) -> (u16, String) {
    loop {
        match page.read() {
            Ok(Message::Close(frame)) => {
                let frame = frame.expect("a code");
                return (frame.code.into(), frame.reason.to_string());
            }
            Ok(_) => {}
            Err(error) => panic!("closed without a reason: {error}"),
        }
    }
}

#[test]
fn an_open_page_is_closed_when_its_right_ends_and_others_stay() {
    let access = Access::new(None);
    let monitor = access.monitor(|_| ());
    let address = monitor.address();
    let origin = format!("http://{address}");
    let (ada, bob) = (sign_in(address, "", "ada"), sign_in(address, "", "bob"));
    let open = |cookie: &str| open_page(address, cookie, &origin).unwrap();
    let (of_ada, of_bob, mut of_anyone) = (open(&ada), open(&bob), open(""));
    as_page(address, "POST /api/sign-out", &ada, "");
    assert_eq!(end_of(of_ada), (POLICY, "ask again: the session has ended".to_owned()));
    // A removed user.
    access.folder.change_users(|users| users.remove(&named("bob"))).unwrap();
    assert_eq!(end_of(of_bob), (POLICY, "ask again: the session has ended".to_owned()));
    // The third is still served: an answer to what it says now.
    of_anyone.send(Message::text("[]")).unwrap();
    let watchdog = Watchdog::new("a note");
    while !matches!(of_anyone.read().unwrap(), Message::Text(text) if text.contains("cannot be read")) {
        watchdog.check();
    }
    // New rules.
    access.rule("allow anyone read lab/**\n");
    assert_eq!(end_of(of_anyone), (POLICY, "ask again: the rules have changed".to_owned()));
}

#[test]
fn a_page_that_a_rule_closes_is_told_the_rule_and_counted() {
    let access = Access::new(Some("allow anyone read **\n"));
    let monitor = access.monitor(|_| ());
    let address = monitor.address();
    let open = || open_page(address, "", &format!("http://{address}")).unwrap();
    let (plain, mut watching) = (open(), open());
    watching.send(Message::text(r#"{"type":"watch_account","stream":"lab/x"}"#)).unwrap();
    // What came after it was read after it.
    watching.send(Message::text("[]")).unwrap();
    let watchdog = Watchdog::new("a note");
    while !matches!(watching.read().unwrap(), Message::Text(text) if text.contains("cannot be read")) {
        watchdog.check();
    }
    access.rule("deny anyone read lab/x\nallow anyone read **\n");
    assert_eq!(end_of(plain).1, "ask again: the rules have changed");
    assert_eq!(end_of(watching), (POLICY, "ask again: denied by line 1: deny anyone read lab/x".to_owned()));
    assert_eq!((count(address, "rules"), count(address, "line 1")), (1, 1));
    let closed = r#"tallycast_monitor_connections_closed_total{reason="revoked"} 2"#;
    assert!(get(address, "/metrics").text().contains(closed), "{}", get(address, "/metrics").text());
}

#[test]
fn a_right_that_ends_before_the_body_arrives_changes_nothing() {
    let access = Access::new(None);
    let mut config = MonitorConfig::new(node(&bus()));
    (config.listen, config.insecure, config.tls) = ("0.0.0.0:0".parse().unwrap(), true, Tls::Off);
    config.access = Some(access.files.path().to_owned());
    let token = access.token("machine", "read,steer");
    let monitor = monitor::start(config).unwrap();
    let address = SocketAddr::from(([127, 0, 0, 1], monitor.address().port()));
    let body = r#"{"pattern":"lab/late"}"#;
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(WATCHDOG)).unwrap();
    let (secret, length) = (token.reveal(), body.len());
    write!(
        stream,
        "POST /api/join HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {secret}\r\nContent-Length: {length}\r\n\
         Expect: 100-continue\r\nConnection: close\r\n\r\n"
    )
    .unwrap();
    // It is sent when the body is waited for: the head has been admitted.
    let mut go_on = [0; 25];
    stream.read_exact(&mut go_on).unwrap();
    assert_eq!(&go_on, b"HTTP/1.1 100 Continue\r\n\r\n");
    access.folder.change_tokens(|tokens| tokens.remove(&named("machine"))).unwrap();
    wait_until("the token's end", || {
        (with_token(address, "GET /metrics", secret, "").status == 401).then_some(())
    });
    stream.write_all(body.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 401") && answer.contains("since the request began"), "{answer}");
    let ada = sign_in(address, "", "ada");
    assert!(!as_page(address, "GET /api/patterns", &ada, "").text().contains("lab/late"));
}

#[test]
fn the_sessions_of_others_are_listed_and_ended_by_whoever_may_administer() {
    let access = Access::new(Some(
        "allow user:ada administer **\nallow anyone read **\ndeny anyone administer lab/x\n",
    ));
    let monitor = access.monitor(|_| ());
    let address = monitor.address();
    let (ada, bob) = (sign_in(address, "", "ada"), sign_in(address, "", "bob"));
    let of_bob = open_page(address, &bob, &format!("http://{address}")).unwrap();
    for (line, cookie, status) in [
        ("GET /api/sessions", "", 401),
        ("GET /api/sessions", &bob, 403),
        ("DELETE /api/sessions?user=ada", &bob, 403),
        ("DELETE /api/sessions?user=no%20name", &ada, 400),
        ("DELETE /api/sessions?user=nobody", &ada, 404),
    ] {
        assert_eq!(as_page(address, line, cookie, "").status, status, "{line}");
    }
    // Without the page that asks, as another site's would be.
    let bare = format!("DELETE /api/sessions?user=bob HTTP/1.1\r\nHost: {address}\r\nCookie: {ada}");
    assert_eq!(ask_as(address, &bare, "").status, 403);
    let listed = as_page(address, "GET /api/sessions", &ada, "").json();
    let users: Vec<_> = listed.as_array().unwrap().iter().map(|it| (&it["user"], &it["sessions"])).collect();
    assert_eq!(users, [(&json!("ada"), &json!(1)), (&json!("bob"), &json!(1))]);
    let left = as_page(address, "DELETE /api/sessions?user=bob", &ada, "").json();
    assert_eq!((left.as_array().unwrap().len(), &left[0]["user"]), (1, &json!("ada")));
    assert_eq!(end_of(of_bob), (POLICY, "ask again: the session has ended".to_owned()));
    assert_eq!(session(address, &bob)["signed_in"], false);
}

#[test]
fn bad_rules_change_nothing_and_are_counted() {
    let access = Access::new(Some(RULES));
    let monitor = access.monitor(|_| ());
    let address = monitor.address();
    let ada = sign_in(address, "", "ada");
    let join = || as_page(address, "POST /api/join", &ada, r#"{"pattern":"lab/x"}"#).status;
    assert_eq!(join(), 200);
    access.rule("allow everybody everything\n");
    let refused =
        || get(address, "/metrics").text().contains("tallycast_monitor_access_files_refused_total{} 1");
    wait_until("the count", || refused().then_some(()));
    assert_eq!(join(), 200);
    access.rule("allow anyone read **\n");
    wait_until("the new rules", || (join() == 403).then_some(()));
}

#[test]
fn guesses_are_refused_alike_and_soon_not_looked_at() {
    let access = Access::new(Some(RULES));
    let monitor = access.monitor(|_| ());
    let address = monitor.address();
    let guess = |user: &str| {
        let body = json!({"user": user, "password": "wrong password"}).to_string();
        let answer = as_page(address, "POST /api/sign-in", "", &body);
        (answer.status, answer.text().to_owned())
    };
    assert_eq!(guess("ada"), guess("nobody"));
    assert_eq!(guess("ada").0, 401);
    let statuses: Vec<u16> = (0..6).map(|_| guess("ada").0).collect();
    assert_eq!(statuses.last(), Some(&429), "{statuses:?}");
    for body in ["", "{}", r#"{"user":1,"password":"s3cret-in-body"}"#, r#"{"user":"ada","password":271828}"#]
    {
        let answer = as_page(address, "POST /api/sign-in", "", body);
        assert_eq!(answer.status, 400, "{body}");
        assert!(!answer.text().contains("s3cret") && !answer.text().contains("271828"), "{}", answer.text());
    }
}

/// Everything that the process logs, at the finest level, until it is taken out.
#[derive(Clone)]
struct Log(Arc<Mutex<Option<Vec<u8>>>>);

impl std::io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        if let Some(log) = self.0.lock().unwrap().as_mut() {
            log.extend_from_slice(bytes);
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn no_password_token_or_session_is_logged_through_tls() {
    let log = Log(Arc::new(Mutex::new(Some(Vec::new()))));
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt().with_max_level(tracing::Level::TRACE).with_ansi(false);
    subscriber.with_writer(move || writer.clone()).init();
    tracing::trace!("caught");
    let access = Access::new(None);
    let token = access.token("machine", "read");
    let folder = tempfile::tempdir().unwrap();
    let monitor = access
        .monitor(|config| (config.tls, config.tls_folder) = (Tls::Automatic, Some(folder.path().to_owned())));
    let (address, client) = (monitor.address(), Client::of(folder.path()));
    let host = format!("localhost:{}", address.port());
    let page = format!("Host: {host}\r\nOrigin: https://{host}\r\nContent-Type: application/json");
    let body = json!({"user": "ada", "password": PASSWORD}).to_string();
    let answer = client.ask(address, &format!("POST /api/sign-in HTTP/1.1\r\n{page}"), &body).unwrap();
    assert_eq!(answer.status, 204, "{answer:?}");
    let cookie = cookie_of(&answer).to_owned();
    let line = answer.head.lines().find(|line| line.starts_with("set-cookie")).unwrap();
    assert!(
        cookie.starts_with("__Host-") && line.contains("; Secure") && line.contains("; HttpOnly"),
        "{line}"
    );
    let session =
        client.ask(address, &format!("GET /api/session HTTP/1.1\r\n{page}\r\nCookie: {cookie}"), "").unwrap();
    assert_eq!(session.json()["principal"], "user:ada");
    let bearer = format!("GET /metrics HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {}", token.reveal());
    let metrics = client.ask(address, &bearer, "").unwrap();
    let wrong = client.ask(address, &format!("{bearer}0"), "").unwrap();
    assert_eq!((metrics.status, wrong.status), (200, 401));
    drop(monitor);
    let bytes = log.0.lock().unwrap().take().unwrap();
    let told = String::from_utf8_lossy(&bytes).into_owned();
    assert!(told.contains("caught"));
    let (_, value) = cookie.split_once('=').unwrap();
    for (what, secret) in [("password", PASSWORD), ("session", value), ("token", token.reveal())] {
        for told in [&told, session.text(), metrics.text(), wrong.text()] {
            assert!(!told.contains(secret), "a {what} is told");
        }
    }
}

#[test]
fn a_monitor_for_other_hosts_without_any_user_says_how_to_add_one() {
    let log = Log(Arc::new(Mutex::new(Some(Vec::new()))));
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt().with_ansi(false).with_writer(move || writer.clone()).finish();
    let told_to = tracing::Dispatch::new(subscriber);
    let access = Access::new(None);
    for folder in [Some(access.files.path().to_owned()), None] {
        let has_users = folder.is_some();
        *log.0.lock().unwrap() = Some(Vec::new());
        let mut config = MonitorConfig::new(node(&bus()));
        (config.listen, config.insecure, config.tls) = ("0.0.0.0:0".parse().unwrap(), true, Tls::Off);
        config.access = folder;
        tracing::dispatcher::with_default(&told_to, || drop(monitor::start(config).unwrap()));
        let told = String::from_utf8(log.0.lock().unwrap().take().unwrap()).unwrap();
        assert_eq!(told.contains("tallycast access user add NAME"), !has_users, "{told}");
    }
}

/// Its rules are read by a monitor that listens; a wrong one does not begin.
#[test]
fn a_monitor_does_not_begin_with_rules_that_it_cannot_read() {
    let access = Access::new(Some("allow everybody\n"));
    let mut config = MonitorConfig::new(node(&bus()));
    config.listen = "127.0.0.1:0".parse().unwrap();
    config.access = Some(access.files.path().to_owned());
    let error = monitor::start(config).err().unwrap().to_string();
    assert!(error.contains("line 1"), "{error}");
}
