//! One connection to an app: its messages in both directions.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ::steer::{
    AppError, Granted, Hand, LeaseError, Request, Response, SessionId, SwitchError, VERSION, Welcome,
};
use access::Principal;
use sys::clock;

use super::host::{Began, Shared};
use crate::udt::{Connection, Lifetime};

/// A connection with an open session.
pub(super) struct Session {
    pub(super) id: SessionId,
    connection: Connection,
    /// Whether it is told of changes.
    is_watching: AtomicBool,
}

/// Time for which a sender waits for room: one that does not read its answers has had thousands by then.
const NO_WAIT: Duration = Duration::ZERO;
/// Time within which a connection sends its first message.
const GREETING: Duration = Duration::from_secs(2);

impl Session {
    /// Sends a message. A peer that does not read is disconnected: it can ask for its commands later.
    pub(super) fn send(&self, response: &Response) {
        send(&self.connection, response);
    }

    pub(super) fn is_watching(&self) -> bool {
        self.is_watching.load(Ordering::Acquire)
    }

    /// Ends the connection.
    pub(super) fn hang_up(&self) {
        self.connection.hang_up();
    }
}

fn send(connection: &Connection, response: &Response) {
    if connection.send_message(&response.encode(), Lifetime::default()).is_err() {
        connection.hang_up();
    }
}

/// Serves a connection until it ends.
pub(super) fn serve(shared: &Shared, connection: Connection) {
    connection.set_send_timeout(Some(NO_WAIT));
    match open(shared, connection) {
        Ok(session) => {
            take_all(shared, &session);
            shared.close(session.id);
        }
        Err((connection, reason)) => {
            send(&connection, &Response::Closing { reason });
            let _ = connection.close();
        }
    }
}

/// Waits for the first message and opens a session.
fn open(shared: &Shared, connection: Connection) -> Result<Arc<Session>, (Connection, String)> {
    let mut bytes = Vec::new();
    connection.set_receive_timeout(Some(GREETING));
    let is_known = match connection.receive_message(&mut bytes) {
        Ok(true) => matches!(Request::decode(&bytes), Some(Request::Hello { version: VERSION })),
        Ok(false) | Err(_) => return Err((connection, "no message came".to_owned())),
    };
    if !is_known {
        return Err((connection, format!("this app speaks version {VERSION} of steering")));
    }
    connection.set_receive_timeout(None);
    let principal = match connection.peer_key() {
        Some(key) => shared.principal(&key),
        None => Principal::anonymous(),
    };
    let id = SessionId(crate::node::random());
    let session = Arc::new(Session { id, connection, is_watching: AtomicBool::new(false) });
    match shared.open(&session, principal) {
        Ok(welcome) => {
            session.send(&Response::Welcome(welcome));
            Ok(session)
        }
        Err(error) => {
            let session = Arc::into_inner(session).expect("a session that was not opened has one holder");
            Err((session.connection, error.to_string()))
        }
    }
}

/// Takes messages until the connection ends.
fn take_all(shared: &Shared, session: &Session) {
    let mut bytes = Vec::new();
    while let Ok(true) = session.connection.receive_message(&mut bytes) {
        let Some(request) = Request::decode(&bytes) else {
            let reason = "a message is not one of steering".to_owned();
            session.send(&Response::Closing { reason });
            session.hang_up();
            return;
        };
        take(shared, session, request);
    }
}

fn take(shared: &Shared, session: &Session, request: Request) {
    let id = session.id;
    let granted = |group: String, granted: Result<Granted, LeaseError>| Response::Lease {
        group,
        granted: granted.map_err(|error| error.to_string()),
    };
    let responses = shared.with(|app, now| match request {
        Request::Hello { .. } => Vec::new(),
        Request::Command(mut command) => {
            // The authority is that of the connection, whatever session the command names.
            command.session = id;
            app.command(now, command);
            Vec::new()
        }
        Request::Ask(question) => {
            let reply = app.ask(now, id, &question);
            reply.map(|reply| Response::Reply { id: question.id, reply }).into_iter().collect()
        }
        Request::Lease { group } => vec![granted(group.clone(), app.lease(now, id, &group))],
        Request::TakeOver { group, reason } => {
            vec![granted(group.clone(), app.take_over(now, id, &group, &reason))]
        }
        Request::Release { group } => {
            let error = app.release(now, id, &group).err().map(|error| error.to_string());
            vec![Response::Released { group, error }]
        }
        Request::Switch { scope, is_on, reason } => {
            let hand = Hand::Session(id);
            let turned =
                if is_on { app.stop(hand, scope, &reason) } else { app.resume(hand, scope, &reason) };
            let error = turned.err().map(|error: SwitchError| error.to_string());
            vec![Response::Switched { switches: app.switches(), error }]
        }
        Request::List => {
            let names: Vec<String> = app.parameters().map(|parameter| parameter.name.clone()).collect();
            let listed = names.iter().filter_map(|name| app.listed(now, name)).map(Response::Parameter);
            listed.chain([Response::State { totals: *app.totals(), switches: app.switches() }]).collect()
        }
        Request::Watch => {
            session.is_watching.store(true, Ordering::Release);
            Vec::new()
        }
        _ => Vec::new(),
    });
    responses.iter().for_each(|response| session.send(response));
}

/// Returns what an app says first.
pub(super) fn welcome(
    app: &mut ::steer::App,
    id: SessionId,
    principal: Principal,
    began: Began,
) -> Result<Welcome, AppError> {
    app.open(id, principal)?;
    Ok(Welcome {
        version: VERSION,
        app: app.name().clone(),
        session: id,
        principal: app.principal(id),
        clock: clock::monotonic(),
        epoch: app.epoch(),
        run: began.run,
        began: began.head,
    })
}
