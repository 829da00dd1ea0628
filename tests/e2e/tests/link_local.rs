//! Addresses that need an interface as scope (RFC 4007): a measurement between them works in all directions.

use e2e::{Command, Host, lan_or_skip, wait_until};
use serde_json::Value;

/// Returns a host's link-local address.
fn link_local(host: &Host) -> Option<String> {
    let show = ["-6", "-o", "-json", "addr", "show", "dev", host.interface(), "scope", "link"];
    let output = host.command("ip").args(show).output().ok()?;
    let shown: Value = serde_json::from_slice(&output.stdout).ok()?;
    let addresses = shown.as_array()?.iter().filter_map(|it| it["addr_info"].as_array()).flatten();
    let mut addresses = addresses.filter_map(|it| it["local"].as_str());
    addresses.next().map(str::to_owned)
}

#[test]
fn a_measurement_between_link_local_addresses_goes_every_way() {
    let Some(lan) = lan_or_skip(&["near", "far"]) else { return };
    let [near, far] = lan.hosts() else { unreachable!("two hosts were asked for") };
    // The far interface has another index than the near one, whose index is meaningless there.
    far.unplug();
    far.plug_in_again();
    let server = Command::start(far, &["bench", "-s", "--listen", "::"]);
    let address = wait_until("a link-local address", || link_local(far));
    let to = format!("{address}%{}", near.interface());
    for options in [&[][..], &["-R"], &["-u", "-b", "5M"], &["-u", "-b", "5M", "-R"]] {
        let arguments = [&["bench", "-c", &to, "-t", "100ms", "--repeat", "1", "-J"], options].concat();
        let run = || near.command(e2e::binary().to_str().unwrap()).args(&arguments).output().unwrap();
        // The server may not listen yet, or the host may not have its address yet.
        let output = wait_until("a measurement", || Some(run()).filter(|it| it.status.success()));
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        let account = &report["end"]["streams"][0]["account"];
        assert_eq!(
            (&account["sent"], account["unexplained"].as_u64()),
            (&account["received"], Some(0)),
            "{account}"
        );
        assert!(account["received"].as_u64() > Some(0), "{account}");
    }
    server.interrupt();
}
