//! Makes cargo look again when the page was built: the program carries what is in `web/dist` then.

use std::path::Path;

fn main() {
    let web = Path::new("../../../web");
    let built = web.join("dist");
    // A path that does not exist would make cargo look every time, so its folder is watched until it does.
    let watched = if built.is_dir() { built.as_path() } else { web };
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed={}", watched.display());
}
