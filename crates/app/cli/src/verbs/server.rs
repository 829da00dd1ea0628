//! Requests to a monitor server: its errors come with what helps.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use serde_json::Value;
use ureq::http::{Response, StatusCode};
use ureq::tls::{Certificate, RootCerts, TlsConfig};
use ureq::typestate::WithBody;
use ureq::{Agent, Body, RequestBuilder};

/// Maximum wait for an answer: a graph is checked in milliseconds.
const PATIENCE: Duration = Duration::from_secs(30);

/// The server's refusal of a request's content, with what helps.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Problems(String);

/// A monitor server, and how it lets this program in.
pub(crate) struct Server {
    agent: Agent,
    url: String,
    bearer: Option<String>,
}

impl Server {
    pub(crate) fn new(url: &str, token: Option<&Path>, ca: Option<&Path>) -> anyhow::Result<Self> {
        if !url.starts_with("http://") && !url.starts_with("https://") {
            bail!(
                "`{url}` is not the address of a monitor server\nwrite it as http://HOST:PORT or https://HOST:PORT"
            );
        }
        let read = |path: &Path| std::fs::read_to_string(path).with_context(|| path.display().to_string());
        let bearer = token.map(read).transpose()?.map(|token| format!("Bearer {}", token.trim()));
        let mut tls = TlsConfig::builder();
        if let Some(path) = ca {
            let certificate =
                Certificate::from_pem(read(path)?.as_bytes()).with_context(|| path.display().to_string())?;
            tls = tls.root_certs(RootCerts::from(vec![certificate]));
        }
        let config = Agent::config_builder()
            // Errors have a body that says what helps.
            .http_status_as_error(false)
            .timeout_global(Some(PATIENCE))
            .tls_config(tls.build())
            // A monitor server is named by its address; a proxy would see what it is told.
            .proxy(None);
        Ok(Self { agent: config.build().new_agent(), url: url.trim_end_matches('/').to_owned(), bearer })
    }

    pub(crate) fn get(&self, path: &str) -> anyhow::Result<Value> {
        let request = self.agent.get(format!("{}{path}", self.url));
        self.read(self.admitted(request).call())
    }

    pub(crate) fn put(&self, path: &str, revision: Option<&str>, body: &Value) -> anyhow::Result<Value> {
        self.send(self.agent.put(format!("{}{path}", self.url)), revision, body)
    }

    pub(crate) fn post(&self, path: &str, revision: Option<&str>, body: &Value) -> anyhow::Result<Value> {
        self.send(self.agent.post(format!("{}{path}", self.url)), revision, body)
    }

    fn send(
        &self,
        mut request: RequestBuilder<WithBody>,
        revision: Option<&str>,
        body: &Value,
    ) -> anyhow::Result<Value> {
        if let Some(revision) = revision {
            request = request.header("If-Match", revision);
        }
        self.read(self.admitted(request).send_json(body))
    }

    fn admitted<B>(&self, request: RequestBuilder<B>) -> RequestBuilder<B> {
        match &self.bearer {
            Some(bearer) => request.header("Authorization", bearer),
            None => request,
        }
    }

    fn read(&self, answer: Result<Response<Body>, ureq::Error>) -> anyhow::Result<Value> {
        let mut response = answer.map_err(|error| {
            let help = "start one with `tallycast monitor`, or name another with --server";
            anyhow!("no answer from the monitor server at {}: {error}\n{help}", self.url)
        })?;
        let status = response.status();
        let value: Value = response
            .body_mut()
            .read_json()
            .with_context(|| format!("the answer of {} ({status})", self.url))?;
        if status.is_success() {
            return Ok(value);
        }
        let text = |name: &str| value[name].as_str().unwrap_or_default().to_owned();
        let told = format!("{}\n{}", text("error"), text("help"));
        if status == StatusCode::BAD_REQUEST {
            return Err(Problems(told).into());
        }
        bail!(told)
    }
}
