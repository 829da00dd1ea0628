//! Two ends of a control connection, and peers that do not follow the protocol.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::mpsc::channel;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use sys::Cancellation;
use units::Random;

use super::frame::{Frames, LONGEST, encode};
use super::scene::{PATIENT, Scene, WATCHDOG};
use tallycast::udt::Secret;

use super::*;
use crate::host_state::HostState;
use crate::{capacity, pingpong, throughput};

/// Time limits of an end that is to give up.
const IMPATIENT: Patience =
    Patience { connect: WATCHDOG, message: Duration::from_millis(40), silence: Duration::from_millis(100) };

/// Echoes every message until good-bye.
struct Echo;

impl Serve for Echo {
    fn name(&self) -> &'static str {
        "echo"
    }

    fn serve(&self, _parameters: Value, session: &mut Session<'_>) -> Result<(), ServeError> {
        while !session.cancellation.is_cancelled() {
            match session.connection.hear(Instant::now() + Duration::from_millis(10))? {
                None => {}
                Some(Message::Bye) => return Ok(()),
                Some(word) => session.connection.tell(&word)?,
            }
        }
        Ok(())
    }
}

/// A test that panics.
struct Defect;

impl Serve for Defect {
    fn name(&self) -> &'static str {
        "defect"
    }

    fn serve(&self, _parameters: Value, _session: &mut Session<'_>) -> Result<(), ServeError> {
        panic!("on purpose")
    }
}

/// Answers the first message of every run with its double.
struct Double;

impl Test for Double {
    type Parameters = u32;
    type Word = u32;
    const NAME: &'static str = "double";

    fn check(&self, most: &u32) -> Result<(), ServeError> {
        if *most > 0 { Ok(()) } else { Err(ServeError::Refused("nothing to double".to_owned())) }
    }

    fn run(&self, most: &u32, request: u32, session: &mut Session<'_>) -> RunResult<u32> {
        match request {
            0 => Ok(Outcome::GivenUp),
            number if number <= *most => Ok(Outcome::Done(number * 2)),
            _ => Err(session.unexpected(&request)),
        }
    }
}

fn scene(patience: Patience) -> Scene {
    Scene::new(&[&Echo, &Defect, &Double], patience)
}

/// Begins the test of a scene.
fn echoing(scene: &Scene) -> Connection {
    scene.begin("echo", Value::Null)
}

fn hear_word(connection: &mut Connection) -> Value {
    connection.hear_word(Instant::now() + WATCHDOG).unwrap().unwrap()
}

#[test]
fn words_go_both_ways_and_the_server_is_free_again() {
    let scene = scene(PATIENT);
    for round in 0..3 {
        let mut client = echoing(&scene);
        client.say(&json!({ "round": round })).unwrap();
        assert_eq!(hear_word(&mut client), json!({ "round": round }));
        client.tell(&Message::Bye).unwrap();
        assert_eq!(scene.ended(), None);
    }
}

#[test]
fn whoever_comes_meanwhile_is_told_with_whom_the_server_is_busy() {
    let scene = scene(PATIENT);
    let mut first = echoing(&scene);
    first.say(&1).unwrap();
    assert_eq!(hear_word(&mut first), json!(1));
    let refused = scene.client().unwrap_err();
    assert!(matches!(&refused, ControlError::Busy { .. }), "{refused}");
    assert!(refused.to_string().contains(&first.local_address().to_string()), "{refused}");
    first.say(&2).unwrap();
    assert_eq!(hear_word(&mut first), json!(2), "the one that is served does not notice");
}

#[test]
fn a_stranger_that_says_nothing_keeps_nobody_out() {
    let scene = scene(PATIENT);
    let mute: Vec<_> = (0..3).map(|_| TcpStream::connect(scene.address).unwrap()).collect();
    let (undecided, _) = scene.client().unwrap();
    let mut client = echoing(&scene);
    client.say(&"here").unwrap();
    assert_eq!(hear_word(&mut client), json!("here"));
    drop((mute, undecided));
}

#[test]
fn of_two_that_were_welcomed_the_second_to_begin_is_told_with_whom_the_server_is_busy() {
    let scene = scene(PATIENT);
    let (mut second, _) = scene.client().unwrap();
    let mut first = echoing(&scene);
    first.say(&1).unwrap();
    assert_eq!(hear_word(&mut first), json!(1));
    second.tell(&Message::Begin { test: "echo".to_owned(), parameters: Value::Null }).unwrap();
    let refused = second.hear(Instant::now() + WATCHDOG).unwrap_err();
    assert!(matches!(&refused, ControlError::Busy { .. }), "{refused}");
    assert!(refused.to_string().contains(&first.local_address().to_string()), "{refused}");
}

#[test]
fn a_defect_in_a_test_ends_that_test_and_no_more() {
    let scene = scene(PATIENT);
    let (mut client, _) = scene.client().unwrap();
    client.tell(&Message::Begin { test: "defect".to_owned(), parameters: Value::Null }).unwrap();
    assert!(scene.ended().unwrap().contains("defect"));
    let mut next = echoing(&scene);
    next.say(&"here").unwrap();
    assert_eq!(hear_word(&mut next), json!("here"));
}

#[test]
fn a_client_that_vanishes_ends_its_test_and_no_more() {
    let scene = scene(PATIENT);
    drop(echoing(&scene));
    assert!(scene.ended().unwrap().contains("is gone"));
    let mut next = echoing(&scene);
    next.say(&"here").unwrap();
    assert_eq!(hear_word(&mut next), json!("here"));
}

#[test]
fn a_server_that_vanishes_is_noticed() {
    let scene = scene(PATIENT);
    let mut client = echoing(&scene);
    client.say(&1).unwrap();
    hear_word(&mut client);
    drop(scene);
    let error = client.hear(Instant::now() + WATCHDOG).unwrap_err();
    assert!(matches!(error, ControlError::Gone { .. }), "{error}");
}

#[test]
fn a_test_that_the_server_does_not_know_is_refused_with_those_it_does() {
    let scene = scene(PATIENT);
    let (mut client, _) = scene.client().unwrap();
    client.tell(&Message::Begin { test: "telepathy".to_owned(), parameters: Value::Null }).unwrap();
    let error = client.hear(Instant::now() + WATCHDOG).unwrap_err().to_string();
    assert!(error.contains("`telepathy`") && error.contains("only: echo, defect, double"), "{error}");
}

#[test]
fn runs_follow_each_other_until_the_client_leaves_or_asks_for_what_is_invalid() {
    let scene = scene(PATIENT);
    let mut client = scene.begin("double", json!(9));
    // A run that was given up has no result.
    for (request, result) in [(1, 2), (4, 8)] {
        client.say(&0).unwrap();
        client.say(&request).unwrap();
        assert_eq!(hear_word(&mut client), json!(result));
    }
    client.part();
    assert_eq!(scene.ended(), None);
    for (parameters, request, trouble) in [
        (json!(0), json!(1), "nothing to double"),
        (json!("x"), json!(1), "invalid test parameters"),
        (json!(9), json!(10), "unexpected message `{\"word\":10}`"),
        (json!(9), json!("x"), "unexpected message `{\"word\":\"x\"}`"),
    ] {
        let mut client = scene.begin("double", parameters);
        // The server may have left already.
        let _ = client.say(&request);
        let ended = scene.ended().unwrap();
        assert!(ended.contains(trouble), "{ended}");
    }
    let idle = scene.begin("double", json!(9));
    scene.end.cancel();
    assert_eq!(scene.ended().unwrap(), ServeError::Ended.to_string());
    drop(idle);
}

/// Plays the server for one client by hand, and returns the error of the client.
fn answered_with(bytes: &[u8], patience: Patience) -> ControlError {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    let bytes = bytes.to_vec();
    let server = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream.write_all(&bytes).unwrap();
        // Until the client closes.
        let _ = stream.read_to_end(&mut Vec::new());
    });
    let error = Connection::open(address.into(), None, patience).unwrap_err();
    server.join().unwrap();
    error
}

fn frame(text: &str) -> Vec<u8> {
    [&u32::try_from(text.len()).unwrap().to_be_bytes()[..], text.as_bytes()].concat()
}

#[test]
fn a_server_of_another_version_is_told_apart_by_both_versions() {
    let host = serde_json::to_value(HostState::look(Ipv4Addr::LOCALHOST.into())).unwrap();
    // Also one whose host has fields that no version has sent yet.
    for host in [host, json!({ "moons": 2 })] {
        let welcome = json!({ "welcome": { "protocol": 99, "tallycast": "9.9.9", "host": host, "hue": 7 } });
        let said = answered_with(&frame(&welcome.to_string()), PATIENT).to_string();
        let both =
            [&format!("version {PROTOCOL} ") as &str, "version 99 ", "tallycast 9.9.9", "same version"];
        assert!(both.iter().all(|words| said.contains(words)), "{said}");
    }
    let welcome =
        json!({ "welcome": { "protocol": PROTOCOL, "tallycast": "9.9.9", "host": { "moons": 2 } } });
    let said = answered_with(&frame(&welcome.to_string()), PATIENT).to_string();
    assert!(said.contains("moons") && said.contains("same version"), "{said}");
}

#[test]
fn a_client_of_another_version_is_told_by_the_server_too() {
    let scene = scene(PATIENT);
    let mut stream = TcpStream::connect(scene.address).unwrap();
    stream.write_all(&frame(r#"{"hello":{"protocol":0,"tallycast":"0.0.1"}}"#)).unwrap();
    assert!(scene.ended().unwrap().contains("speaks version 0"));
    let mut answer = Vec::new();
    stream.set_read_timeout(Some(WATCHDOG)).unwrap();
    stream.read_to_end(&mut answer).unwrap();
    let answer = String::from_utf8_lossy(&answer);
    assert!(answer.contains("welcome") && answer.contains("same version of tallycast"), "{answer}");
}

#[test]
fn another_kind_of_server_is_no_end_of_a_bench() {
    for answer in [&b"HTTP/1.1 400 Bad Request\r\n\r\n"[..], &[0xff; 64], &frame("{}"), &frame("[1,2")] {
        let error = answered_with(answer, PATIENT);
        assert!(matches!(error, ControlError::Nonsense { .. }), "{error}");
    }
    let misplaced = answered_with(&frame("\"bye\""), PATIENT);
    assert!(matches!(misplaced, ControlError::Unexpected { .. }), "{misplaced}");
}

#[test]
fn half_a_message_and_silence_end_patience() {
    let half = answered_with(&frame("\"bye\"")[..6], Patience { silence: WATCHDOG, ..IMPATIENT });
    assert!(matches!(half, ControlError::HalfMessage { .. }), "{half}");
    let silent = answered_with(&[], IMPATIENT);
    assert!(matches!(silent, ControlError::Silent { .. }), "{silent}");
}

#[test]
fn an_end_that_only_says_that_it_is_alive_does_not_hold_the_other_up() {
    let alive: Vec<u8> = std::iter::repeat_n(frame("\"alive\""), 100).flatten().collect();
    let error = answered_with(&alive, IMPATIENT);
    assert!(matches!(error, ControlError::Silent { .. }), "{error}");
}

/// A peer that reads nothing and sends heartbeats without end.
fn deaf_and_talkative() -> (TcpStream, JoinHandle<()>) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let ours = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (mut theirs, _) = listener.accept().unwrap();
    let thread = std::thread::spawn(move || {
        let alive = frame("\"alive\"");
        // Until the other end closes.
        while theirs.write_all(&alive).is_ok() {}
    });
    (ours, thread)
}

#[test]
fn an_end_that_takes_nothing_and_goes_on_talking_is_given_up() {
    // More than the buffers of both sockets hold.
    const MOST_WORDS: usize = 1_000;
    let (stream, talking) = deaf_and_talkative();
    let (done, outcome) = channel();
    std::thread::spawn(move || {
        let mut connection = Connection::over(stream, None, IMPATIENT).unwrap();
        let word = "long ".repeat(100_000);
        let error = (0..MOST_WORDS).find_map(|_| connection.say(&word).err());
        done.send(error).unwrap();
    });
    let error = outcome.recv_timeout(WATCHDOG).unwrap().unwrap();
    assert!(matches!(error, ControlError::Gone { .. }), "{error}");
    talking.join().unwrap();
}

#[test]
fn who_is_not_listened_to_is_held_up() {
    // More than the buffers of both sockets and the queue behind them hold.
    const MOST_WORDS: usize = 400;
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let theirs = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (ours, _) = listener.accept().unwrap();
    let deaf = Connection::over(ours, None, PATIENT).unwrap();
    let mut talking = Connection::over(theirs, None, IMPATIENT).unwrap();
    let word = "long ".repeat(100_000);
    let held_up = (0..MOST_WORDS).any(|_| talking.say(&word).is_err());
    assert!(held_up, "the words would pile up at the end that does not listen");
    drop(deaf);
}

#[test]
fn noise_ends_its_own_connection_and_the_server_goes_on() {
    // Each has nothing more to send, so that no time limit is needed.
    let scene = scene(PATIENT);
    let mut random = Random::new(11);
    for round in 0..40 {
        let mut stream = TcpStream::connect(scene.address).unwrap();
        let len = random.below(300);
        let mut bytes: Vec<u8> = (0..len).map(|_| random.next_u64().to_be_bytes()[0]).collect();
        if round % 3 == 0 {
            let hello = Message::Hello { protocol: PROTOCOL, tallycast: "x".to_owned() };
            bytes.splice(0..0, encode(&hello));
        }
        // The server may have closed already.
        let _ = stream.write_all(&bytes);
        let _ = stream.shutdown(std::net::Shutdown::Write);
        assert!(scene.ended().is_some(), "round {round}");
    }
    drop(echoing(&scene));
    scene.ended();
}

#[test]
fn a_port_that_is_taken_is_said_with_the_way_out() {
    let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let options = ServerOptions {
        listen: taken.local_addr().unwrap(),
        lifetime: Lifetime::OneClient,
        patience: PATIENT,
        keys: None,
    };
    let cancellation = Cancellation::new().unwrap();
    let error = serve(&options, &[&Echo], &|_| {}, &cancellation).unwrap_err().to_string();
    assert!(error.contains("cannot listen on") && error.contains("-p"), "{error}");
}

#[test]
fn nobody_there_is_said_with_the_command_that_starts_one() {
    let unused = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = unused.local_addr().unwrap();
    drop(unused);
    let error = Connection::open(address.into(), None, PATIENT).unwrap_err().to_string();
    assert!(
        error.contains("no answer from a bench server") && error.contains("tallycast bench -s"),
        "{error}"
    );
}

/// One of each message that an end receives; the parameters of every test among them.
fn all_messages() -> Vec<Message> {
    let host = serde_json::to_value(HostState::look(Ipv4Addr::LOCALHOST.into())).unwrap();
    let text = || "a \"word\" of \u{1d11e} and \u{0}".to_owned();
    let mut messages = vec![
        Message::Hello { protocol: PROTOCOL, tallycast: text() },
        Message::Welcome { protocol: PROTOCOL, tallycast: text(), host },
        Message::Busy { with: text() },
        Message::Word(json!({ "sent": { "numbered": 7, "refused": {}, "more": [[], 1.5, null, true] } })),
        Message::Failed { reason: text() },
        Message::Alive,
        Message::Bye,
    ];
    let parameters = [
        serde_json::to_value(throughput::Options::default()),
        serde_json::to_value(pingpong::Options::default()),
        serde_json::to_value(throughput::Options {
            protocol: throughput::Protocol::Multicast,
            delay_percentiles: true,
            ..throughput::Options::default()
        }),
        serde_json::to_value(capacity::Options::default()),
    ];
    for parameters in parameters {
        messages.push(Message::Begin { test: text(), parameters: parameters.unwrap() });
    }
    messages
}

/// Cuts, flips, doubles or replaces some bytes of a text, most often its numbers.
fn damage(text: &mut Vec<u8>, random: &mut Random) {
    for _ in 0..random.below(4) {
        let at = usize::try_from(random.below(text.len().max(1) as u64)).unwrap();
        match random.below(6) {
            0 => text.truncate(at),
            1 => text.iter_mut().skip(at).take(1).for_each(|byte| *byte ^= 1 << random.below(8)),
            2 => text.extend_from_within(at..),
            _ => {
                let numbers = ["0", "-1", "18446744073709551615", "1e308", "0.5", "[]", "null", "\"\""];
                let digits = text.iter().skip(at).position(u8::is_ascii_digit).map(|from| at + from);
                let Some(from) = digits else { continue };
                let len = text[from..].iter().take_while(|byte| byte.is_ascii_digit()).count();
                let other = numbers[usize::try_from(random.below(numbers.len() as u64)).unwrap()];
                text.splice(from..from + len, other.bytes());
            }
        }
    }
}

/// Decodes a message as far as an end does; returns whether a test would accept it as parameters.
fn is_believed(message: &Message) -> bool {
    let parameters = match message {
        Message::Begin { parameters, .. } => parameters,
        Message::Welcome { host, .. } => return serde_json::from_value::<HostState>(host.clone()).is_ok(),
        _ => return false,
    };
    let of = || parameters.clone();
    serde_json::from_value::<throughput::Options>(of()).is_ok_and(|it| it.check().is_ok())
        || serde_json::from_value::<pingpong::Options>(of()).is_ok_and(|it| it.check().is_ok())
        || serde_json::from_value::<capacity::Options>(of()).is_ok_and(|it| it.check().is_ok())
}

#[test]
fn damaged_messages_are_refused_or_believed_and_fill_no_memory() {
    let messages = all_messages();
    let mut random = Random::new(9);
    let (mut refused, mut said_again, mut believed) = (0, 0, 0);
    for round in 0..4_000 {
        let message = &messages[round % messages.len()];
        let mut text = serde_json::to_vec(message).unwrap();
        damage(&mut text, &mut random);
        let mut bytes = [&u32::try_from(text.len()).unwrap().to_be_bytes()[..], &text].concat();
        if random.below(8) == 0 {
            // The length may be wrong, too.
            bytes[usize::try_from(random.below(4)).unwrap()] ^= 1 << random.below(8);
        }
        let mut frames = Frames::default();
        'pieces: for piece in bytes.chunks(1 + usize::try_from(random.below(400)).unwrap()) {
            frames.push(piece);
            while let Some(message) = frames.next() {
                let Ok(message) = message else {
                    refused += 1;
                    break 'pieces;
                };
                let mut again = Frames::default();
                again.push(&encode(&message));
                assert!(matches!(again.next(), Some(Ok(_))), "round {round}: {message:?}");
                said_again += 1;
                believed += u32::from(is_believed(&message));
            }
            assert!(frames.held_bytes() <= bytes.len().min(LONGEST + 4), "round {round}");
        }
    }
    // All three cases have occurred.
    assert!(refused > 100 && said_again > 100 && believed > 100, "{refused} {said_again} {believed}");
}

#[test]
fn parameters_of_any_numbers_are_checked_without_a_panic() {
    let extremes = [json!(0), json!(1), json!(u32::MAX), json!(u64::MAX), json!(i64::MIN), json!(null)];
    let mut random = Random::new(11);
    for message in all_messages() {
        let Message::Begin { parameters, .. } = message else { continue };
        for _ in 0..500 {
            let mut parameters = parameters.clone();
            let fields: Vec<String> = parameters.as_object().unwrap().keys().cloned().collect();
            for _ in 0..=random.below(3) {
                let field = &fields[usize::try_from(random.below(fields.len() as u64)).unwrap()];
                let extreme = extremes[usize::try_from(random.below(extremes.len() as u64)).unwrap()].clone();
                let place = &mut parameters[field];
                match place {
                    // A list, or a duration, or a rate: one of its parts.
                    Value::Array(list) if !list.is_empty() => list[0] = extreme,
                    Value::Object(parts) => parts.values_mut().for_each(|part| *part = extreme.clone()),
                    _ => *place = extreme,
                }
            }
            is_believed(&Message::Begin { test: String::new(), parameters });
        }
    }
}

/// Keys of an end whose private key is `own` all over, and of its peers.
fn keys_of(own: u8, peers: &[u8]) -> ControlKeys {
    let secret = |byte| Secret::new(zeroize::Zeroizing::new([byte; 32]));
    let peers = peers.iter().map(|byte| noise::public_key(&secret(*byte))).collect();
    ControlKeys { key: secret(own), peers, station: None }
}

#[test]
fn a_server_with_keys_measures_with_listed_clients_only_and_counts_the_others() {
    let scene = Scene::with_keys(&[&Echo], PATIENT, Some(keys_of(1, &[2])));
    let call = |keys: Option<&ControlKeys>| {
        Connection::open(ServerAt { address: scene.address, keys }, None, PATIENT)
    };
    let told = call(None).unwrap_err().to_string();
    assert!(told.contains("this server has a key") && told.contains("add --key FILE"), "{told}");
    assert_eq!(scene.refused(), (Unwelcome::Clear, 1));
    let stranger = keys_of(3, &[1]);
    let told = call(Some(&stranger)).unwrap_err().to_string();
    assert!(told.contains(&format!("--peer {}", stranger.public())), "{told}");
    assert_eq!(scene.refused(), (Unwelcome::Unlisted(stranger.public()), 2));
    assert!(call(Some(&keys_of(2, &[4]))).is_err(), "another server is meant");
    assert_eq!(scene.refused(), (Unwelcome::Handshake, 3));
    let (mut client, _) = call(Some(&keys_of(2, &[1]))).unwrap();
    client.tell(&Message::Begin { test: "echo".to_owned(), parameters: Value::Null }).unwrap();
    // Longer than a record.
    let long = "long ".repeat(10_000);
    client.say(&long).unwrap();
    assert_eq!(hear_word(&mut client), Value::from(long));
    // Who is not listed is not told with whom the server is busy.
    let told = call(None).unwrap_err().to_string();
    assert!(told.contains("busy measuring with another client"), "{told}");
    let told = call(Some(&keys_of(2, &[1]))).unwrap_err().to_string();
    assert!(told.contains("busy measuring with another client"), "{told}");
    client.part();
    assert_eq!(scene.ended(), None);
}

#[test]
fn a_client_with_keys_never_goes_on_in_clear() {
    let scene = scene(PATIENT);
    let keys = keys_of(2, &[1]);
    let server = ServerAt { address: scene.address, keys: Some(&keys) };
    let error = Connection::open(server, None, PATIENT).unwrap_err();
    assert!(matches!(error, ControlError::NotSecured { .. }), "{error}");
    assert!(scene.ended().unwrap().contains("does not speak the bench protocol"));
}
