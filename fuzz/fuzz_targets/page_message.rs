//! Any messages of a page at a monitor's WebSocket: each accepted or refused with a text, and the next one
//! processed.
//!
//! After every message the page requests a view: its frame arrives, and decodes. Only a message that is not text,
//! or far too long, may end the connection, and the close frame gives the reason.
#![no_main]

use fuzz::monitored::{STREAM, address, connect};
use libfuzzer_sys::arbitrary::{self, Arbitrary};
use libfuzzer_sys::fuzz_target;
use serde_json::{Value, json};
use tungstenite::client::IntoClientRequest;
use tungstenite::{Message, WebSocket};
use wire::{PictureFrame, ValuesFrame, ViewFrame, WaterfallFrame};

/// The view that shows that the monitor still responds.
const SURE: u32 = u32::MAX;

#[derive(Debug, Arbitrary)]
enum Said<'a> {
    Text(&'a str),
    Binary(&'a [u8]),
    Ping(&'a [u8]),
    View { view: u32, traces: Vec<Option<&'a str>>, width_px: Number, span_ns: Number, end_ns: Option<Number> },
    Close { view: u32 },
    Visible { visible: bool },
    Shown { frame: u32 },
    Watch { stream: Option<&'a str> },
}

#[derive(Clone, Copy, Debug, Arbitrary)]
enum Number {
    Small(u16),
    Any(i64),
    Float(f64),
}

fuzz_target!(|messages: Vec<Said<'_>>| {
    let request = format!("ws://{}/api/live", address()).into_client_request().expect("an address");
    let (mut socket, _) = tungstenite::client(request, connect()).expect("the monitor takes a page");
    for message in messages.iter().take(16) {
        socket.send(message.message()).expect("the monitor hears on");
        is_sure(&mut socket);
    }
    let _ = socket.close(None);
});

/// Requests a view and waits for its frame, which must arrive after any other message.
fn is_sure(socket: &mut WebSocket<std::net::TcpStream>) {
    let view = json!({"type": "view", "view": SURE, "traces": [], "width_px": 1, "span_ns": 1, "end_ns": 0});
    for message in [json!({"type": "visible", "visible": true}), json!({"type": "close", "view": SURE}), view] {
        socket.send(Message::text(message.to_string())).expect("the monitor hears on");
    }
    loop {
        match socket.read().expect("the monitor goes on") {
            Message::Binary(bytes) => {
                let (frame, view) = decoded(&bytes);
                let shown = json!({"type": "shown", "frame": frame});
                socket.send(Message::text(shown.to_string())).expect("the monitor hears on");
                if view == SURE {
                    return;
                }
            }
            Message::Text(text) => {
                let said: Value = serde_json::from_str(&text).expect("texts are JSON");
                assert!(said["type"].is_string(), "{said}");
            }
            Message::Close(close) => panic!("the connection was ended: {close:?}"),
            Message::Ping(_) | Message::Pong(_) | Message::Frame(_) => {}
        }
    }
}

/// Returns the numbers of a frame and of its view, whatever its kind.
fn decoded(bytes: &[u8]) -> (u32, u32) {
    if let Ok(picture) = PictureFrame::decode(bytes) {
        return (picture.frame, picture.view);
    }
    if let Ok(values) = ValuesFrame::decode(bytes) {
        return (values.frame, values.view);
    }
    if let Ok(waterfall) = WaterfallFrame::decode(bytes) {
        return (waterfall.frame, waterfall.view);
    }
    let frame = ViewFrame::decode(bytes).expect("a frame of the page's protocol");
    (frame.frame, frame.view)
}

impl Said<'_> {
    fn message(&self) -> Message {
        let said = match self {
            Self::Text(text) => return Message::text(*text),
            Self::Binary(bytes) => return Message::binary(bytes.to_vec()),
            Self::Ping(bytes) => return Message::Ping(bytes[..bytes.len().min(125)].to_vec().into()),
            Self::View { view, traces, width_px, span_ns, end_ns } => {
                let channel = |channel: &Option<&str>| json!({"stream": STREAM, "channel": channel.unwrap_or("x")});
                let traces: Vec<Value> = traces.iter().map(channel).collect();
                let end = end_ns.map_or(Value::Null, Number::json);
                json!({"type": "view", "view": view, "traces": traces, "width_px": width_px.json(),
                       "span_ns": span_ns.json(), "end_ns": end})
            }
            Self::Close { view } => json!({"type": "close", "view": view}),
            Self::Visible { visible } => json!({"type": "visible", "visible": visible}),
            Self::Shown { frame } => json!({"type": "shown", "frame": frame}),
            Self::Watch { stream } => json!({"type": "watch_account", "stream": stream}),
        };
        Message::text(said.to_string())
    }
}

impl Number {
    fn json(self) -> Value {
        match self {
            Self::Small(number) => number.into(),
            Self::Any(number) => number.into(),
            Self::Float(number) => number.into(),
        }
    }
}
