//! The address of the other relay, looked up again for each attempt to connect: hosts move.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use engine::News;

/// Returns the present address of a host, or why it has none. May block.
pub type LookUp = Arc<dyn Fn() -> Result<SocketAddr, String> + Send + Sync>;

type Answer = Result<SocketAddr, String>;

/// An address that may change.
pub(crate) struct PeerAddress {
    address: SocketAddr,
    named: Option<Named>,
}

struct Named {
    look_up: LookUp,
    news: Arc<News>,
    answer: Arc<Mutex<Option<Answer>>>,
    /// True until the answer has come and is taken: one question at a time.
    is_asked: bool,
    /// Reason why the last look-up failed.
    trouble: Option<String>,
}

impl PeerAddress {
    /// Creates an address that does not change.
    pub(crate) const fn fixed(address: SocketAddr) -> Self {
        Self { address, named: None }
    }

    /// Looks it up from now on; `news` is woken by answers.
    pub(crate) fn follow(&mut self, look_up: LookUp, news: Arc<News>) {
        self.named = Some(Named { look_up, news, answer: Arc::default(), is_asked: false, trouble: None });
    }

    /// Returns the address as it was found last.
    pub(crate) const fn last(&self) -> SocketAddr {
        self.address
    }

    /// Looks up the present address, on a thread of its own.
    pub(crate) fn ask(&mut self) {
        let Some(Named { look_up, news, answer, is_asked, .. }) = &mut self.named else { return };
        if std::mem::replace(is_asked, true) {
            return;
        }
        let (look_up, news, put) = (Arc::clone(look_up), Arc::clone(news), Arc::clone(answer));
        let ask = move || {
            let found = look_up();
            *put.lock().unwrap_or_else(PoisonError::into_inner) = Some(found);
            news.tell();
        };
        if let Err(error) = std::thread::Builder::new().name("relay-look-up".to_owned()).spawn(ask) {
            *answer.lock().unwrap_or_else(PoisonError::into_inner) = Some(Err(error.to_string()));
        }
    }

    /// Returns whether the answer has come, and takes it: without an address the last one is used again.
    pub(crate) fn is_answered(&mut self) -> bool {
        let Some(named) = &mut self.named else { return true };
        match named.answer.lock().unwrap_or_else(PoisonError::into_inner).take() {
            None => return false,
            Some(Ok(address)) => (self.address, named.trouble) = (address, None),
            Some(Err(trouble)) => named.trouble = Some(trouble),
        }
        named.is_asked = false;
        true
    }

    /// Returns why the last look-up failed.
    pub(crate) fn trouble(&self) -> Option<&str> {
        self.named.as_ref()?.trouble.as_deref()
    }
}
