//! The page's files, carried in the program; built by `cargo xtask page`, absent until then.

use axum::extract::Request;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use rust_embed::{EmbeddedFile, RustEmbed};

use crate::refused::Refused;

/// The built files of `web/`. Debug programs embed them as releases do, so that the same path is always tested.
#[derive(RustEmbed)]
#[folder = "../../../web/dist"]
#[allow_missing = true]
struct PageFiles;

/// Page shown if there is none.
const NO_PAGE: &str = "This monitor was built without its page.\n\n\
    Build it with `cargo xtask page` (Node 20 or later), then build the program again.\n\
    Everything else works: see /api/streams, /metrics and docs/protocol/page.md.\n";
/// The source text of the guide to losses, if there is no page of it.
const GUIDE: &str = include_str!("../../../../docs/guide/losses.md");
/// Files under this folder have their content's hash in their names.
const HASHED: &str = "assets/";

/// Answers with the page.
pub(crate) async fn index() -> Response {
    page("index.html", NO_PAGE)
}

/// Answers with the guide to losses, a heading for each stage (`docs/guide/losses.md`).
pub(crate) async fn guide() -> Response {
    page("guide.html", GUIDE)
}

fn page(name: &str, otherwise: &'static str) -> Response {
    match PageFiles::get(name) {
        Some(file) => answer(name, file),
        None => {
            (StatusCode::OK, [(header::CONTENT_TYPE, "text/plain; charset=utf-8")], otherwise).into_response()
        }
    }
}

/// Answers with one of the page's files.
pub(crate) async fn file(request: Request) -> Response {
    let path = request.uri().path().trim_start_matches('/');
    match PageFiles::get(path) {
        Some(file) => answer(path, file),
        None => Refused::no_path(request.uri().path()).into_response(),
    }
}

fn answer(path: &str, file: EmbeddedFile) -> Response {
    // A file name with a hash never changes its content; the others are revalidated, so that a page never mixes two
    // versions.
    let keep = if path.starts_with(HASHED) { "public, max-age=31536000, immutable" } else { "no-cache" };
    let headers = [(header::CONTENT_TYPE, media_type(path)), (header::CACHE_CONTROL, keep)];
    (headers, file.data.into_owned()).into_response()
}

fn media_type(path: &str) -> &'static str {
    match path.rsplit_once('.').map_or("", |(_, extension)| extension) {
        "html" => "text/html; charset=utf-8",
        "js" => "text/javascript; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "svg" => "image/svg+xml",
        "png" => "image/png",
        "ico" => "image/x-icon",
        "json" | "webmanifest" => "application/json",
        "woff2" => "font/woff2",
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_out_of_the_page_finds_nothing() {
        for path in ["../package.json", "/etc/hostname", "assets/../../package.json", ""] {
            assert!(PageFiles::get(path).is_none(), "{path}");
        }
    }
}
