//! `strobe ctl`, `strobe top` and metrics.

use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::process::Stdio;

use super::serve::{Running, clients, folder};
use crate::Folder;

#[test]
fn a_running_drive_is_cut_rewound_and_aged() {
    if !clients(&[("qemu-io", "qemu-utils")]) {
        return;
    }
    let folder = folder();
    let mut server = Running::start(&folder, &["--pace", "none"]);
    let io = |commands: &[&str]| {
        let mut io = std::process::Command::new("qemu-io");
        io.current_dir(folder.path()).args(["-f", "raw"]);
        for command in commands {
            io.args(["-c", command]);
        }
        let out = io.arg("nbd+unix:///?socket=s.sock").output().expect("qemu-io runs");
        let text = String::from_utf8_lossy(&[out.stdout, out.stderr].concat()).into_owned();
        assert!(out.status.success() && !text.contains("failed"), "{text}");
    };
    let ctl = |command: &[&str]| folder.strobe(&[&["ctl", "s.sock"], command].concat());
    io(&["write -P 1 0 1m", "flush"]);
    assert_eq!(ctl(&["snapshot", "first"]).ok().json()["snapshot"], "first");
    io(&["write -P 2 0 1m", "write -P 3 1m 1m", "flush"]);
    assert!(ctl(&["cut"]).ok().json()["recovery_ns"].as_u64() > Some(0));
    io(&["read -P 2 0 1m", "read -P 3 1m 1m"]);
    ctl(&["rewind", "first"]).ok();
    io(&["read -P 1 0 1m", "read -P 0 1m 1m", "write -P 4 0 1m"]);
    ctl(&["rewind", "first"]).ok();
    io(&["read -P 1 0 1m"]);
    let stats = ctl(&["stats"]).ok().json();
    assert!(stats["requests"]["write"].as_u64() >= Some(4), "over all drives: {}", stats["requests"]);
    assert!(stats["server"]["connections"].as_u64() >= Some(4));
    let top = folder.strobe(&["top", "s.sock", "--count", "1", "--interval", "10ms"]).ok().out;
    assert!(top.contains("blocks free") && top.contains("read 0/s"), "{top}");
    ctl(&["age", "0.5"]).ok();
    let aged = ctl(&["stats"]).ok().json();
    assert!(aged["space"]["mapped_units"].as_u64() > Some(16_000), "{}", aged["space"]);
    ctl(&["rewind", "second"]).refused(&["second", "existing snapshots: first"]);
    ctl(&["melt"]).refused(&["melt", "stats, cut, snapshot, rewind, age, faults and stop"]);
    ctl(&["age", "1000"]).refused(&["from 0 to 100"]);
    ctl(&["stop"]).ok();
    assert_eq!(server.0.wait().expect("it ends").code(), Some(0));
    ctl(&["stats"]).refused(&["s.sock", "no server"]);
}

/// With the error code of the protocol, until rewritten.
#[test]
fn reads_fail_where_faults_are_asked_for() {
    if !clients(&[("nbdsh", "python3-libnbd")]) {
        return;
    }
    let folder = folder();
    let server = Running::start(&folder, &["--pace", "none"]);
    let nbdsh = |script: &str| {
        let mut nbdsh = std::process::Command::new("/usr/bin/python3");
        nbdsh.current_dir(folder.path()).args([
            "-m",
            "nbd",
            "-u",
            "nbd+unix:///?socket=s.sock",
            "-c",
            script,
        ]);
        let out = nbdsh.output().expect("nbdsh runs");
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
        String::from_utf8_lossy(&out.stdout).into_owned()
    };
    let ctl = |argument: &str| folder.strobe(&["ctl", "s.sock", "faults", argument]);
    let failing = r#"
import nbd, errno
failing = []
for unit in range(256):
    try:
        h.pread(4096, unit * 4096)
    except nbd.Error as error:
        assert error.errnum == errno.EIO, error
        failing.append(unit * 8)
print(failing)
"#;
    assert_eq!(ctl("3").ok().json()["unreadable_units"], 0, "nothing is stored");
    nbdsh("h.pwrite(b'a' * (1 << 20), 0); h.flush()");
    assert_eq!(ctl("9-16").ok().json()["unreadable_units"], 2, "units of 8 sectors");
    assert_eq!(nbdsh(failing).trim(), "[8, 16]");
    nbdsh("h.pwrite(b'b' * 8192, 4096); h.flush(); assert h.pread(8192, 4096) == b'b' * 8192");
    let chosen = ctl("5").ok().json();
    assert_eq!(chosen["unreadable_units"], 5);
    let lbas: Vec<u64> = serde_json::from_value(chosen["lbas"].clone()).expect("places");
    assert_eq!(nbdsh(failing).trim(), format!("{lbas:?}"));
    for wrong in ["0", "10001", "8-7", "0-131072", "all"] {
        ctl(wrong).refused(&["from 1 to 10000", "FIRST-LAST below 131072"]);
    }
    ctl("1").ok();
    server.kill();
}

#[test]
fn a_drive_on_an_image_is_not_rewound() {
    let folder = folder();
    let server = Running::start(&folder, &["--image", "ssd.img"]);
    let mode = std::fs::metadata(folder.path().join("s.sock.ctl")).expect("a socket").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let cures = [
        ("cut", "kill -9"),
        ("snapshot", "copy the file"),
        ("rewind", "a copy of the file"),
        ("age", "without --image"),
    ];
    for (command, cure) in cures {
        folder.strobe(&["ctl", "s.sock", command]).refused(&[command, "on an image", cure]);
    }
    assert_eq!(folder.strobe(&["ctl", "s.sock", "faults", "0-7"]).ok().json()["unreadable_units"], 0);
    assert!(folder.strobe(&["ctl", "s.sock", "stats"]).ok().json()["image"].is_object());
    server.kill();
}

#[test]
fn metrics_are_had_over_http() {
    use std::io::{Read as _, Write as _};
    let folder = folder();
    let mut child = folder
        .command(&["serve", "--drive", "ssd.toml", "--socket", "s.sock", "--metrics", "0"])
        .stdout(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let lines: Vec<_> = BufReader::new(child.stdout.take().expect("a pipe")).lines().take(2).collect();
    let uri = lines[1].as_ref().expect("a second line").clone();
    let address = uri.strip_prefix("http://").and_then(|rest| rest.strip_suffix("/metrics")).expect("a URI");
    let ask = |head: &str| {
        let mut stream = std::net::TcpStream::connect(address).expect("it listens");
        stream.write_all(head.as_bytes()).expect("it hears");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("it answers");
        answer
    };
    let answer = ask("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    for line in [
        "# TYPE strobe_flash_programs_total counter",
        "strobe_free_blocks ",
        "strobe_requests_total{op=\"read\"} 0",
    ] {
        assert!(answer.contains(line), "{line}: {answer}");
    }
    assert!(ask("GET / HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 404"));
    let mut noise = std::net::TcpStream::connect(address).expect("it listens");
    let _ = noise.write_all(&[b'x'; 100_000]);
    assert!(ask("GET /metrics HTTP/1.0\r\n\r\n").contains("200 OK"), "after nonsense too");
    child.kill().expect("kill -9");
    child.wait().expect("it ends");
}

#[test]
fn a_socket_that_does_not_answer_is_given_up() {
    let folder = Folder::new();
    let _silent = std::os::unix::net::UnixListener::bind(folder.path().join("vhost.sock")).expect("bound");
    for args in [&["ctl", "vhost.sock", "stats"][..], &["ctl", "vhost.sock", "stop"], &["top", "vhost.sock"]]
    {
        let ended = folder.strobe(args);
        assert_eq!(ended.code, 1, "{ended:?}");
        ended.says(&["no answer within 5 s", "--vhost", ".ctl"]);
    }
}
