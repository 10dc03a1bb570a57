//! `strobe serve`: third-party clients, and durability across server restarts.

use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Child, Stdio};
use std::time::Duration;

use super::{Ended, Folder};

const DRIVE: &str = "\
[nand]
channels = 2
dies_per_channel = 2
blocks_per_plane = 40
pages_per_block = 128
program_ns = 400000
read_ns = 60000
[ftl]
logical_pages = 16384
";

pub(super) fn folder() -> Folder {
    let folder = Folder::new();
    folder.write("ssd.toml", DRIVE);
    folder
}

#[track_caller]
pub(super) fn clients(names: &[(&str, &str)]) -> bool {
    names.iter().all(|(name, package)| strobe_testing::program(name, package).is_some())
}

fn serve(folder: &Folder, more: &[&str], script: &str) -> Ended {
    folder.strobe(&[&["serve", "--drive", "ssd.toml", "--run", script], more].concat())
}

pub(super) struct Running(pub(super) Child);

impl Running {
    pub(super) fn start(folder: &Folder, more: &[&str]) -> Self {
        let args = [&["serve", "--drive", "ssd.toml", "--socket", "s.sock"], more].concat();
        let mut child = folder.command(&args).stdout(Stdio::piped()).spawn().expect("the program starts");
        let mut line = String::new();
        let out = child.stdout.as_mut().expect("a pipe");
        BufReader::new(out).read_line(&mut line).expect("an address");
        assert!(line.starts_with("nbd+unix:///strobe?socket="), "{line}");
        Self(child)
    }

    pub(super) fn kill(mut self) {
        self.0.kill().expect("kill -9");
        self.0.wait().expect("it ends");
    }
}

/// A failed test leaves no server running.
impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_server_tells_its_size_and_its_abilities() {
    if !clients(&[("nbdinfo", "libnbd-bin")]) {
        return;
    }
    let folder = folder();
    let info = serve(&folder, &["--quiet"], "nbdinfo --json \"$uri\"").ok().json();
    let export = &info["exports"][0];
    assert_eq!(export["export-size"], 64 << 20);
    for able in ["can_flush", "can_fua", "can_trim", "can_zero", "can_fast_zero", "can_df", "can_multi_conn"]
    {
        assert_eq!(export[able], true, "{able}: {export}");
    }
    assert_eq!(export["is_read_only"], false);
    assert_eq!((&export["block_size_minimum"], &export["block_size_preferred"]), (&512.into(), &4096.into()));
    assert_eq!(export["contexts"], serde_json::json!(["base:allocation"]));
    let list = serve(&folder, &["--quiet", "--export", "mine"], "nbdinfo --list \"$uri\"").ok().out;
    assert!(list.contains("export=\"mine\""), "{list}");
    let read_only = serve(&folder, &["--quiet", "--read-only"], "nbdinfo --is read-only \"$uri\"");
    assert_eq!(read_only.code, 0, "{read_only:?}");
    assert_eq!(
        serve(&folder, &["--quiet"], "nbdinfo --is read-only \"$uri\"").code,
        2,
        "the command's exit code"
    );
}

#[test]
fn files_are_copied_there_and_back() {
    if !clients(&[("nbdcopy", "libnbd-bin"), ("nbdinfo", "libnbd-bin")]) {
        return;
    }
    let folder = folder();
    let mut content = vec![0; 16 << 20];
    for (at, byte) in content[1 << 20..3 << 20].iter_mut().enumerate() {
        *byte = (at * 7 + at / 4096) as u8 | 1;
    }
    folder.write("in", &content);
    for pace in ["none", "model"] {
        let script = "nbdcopy in \"$uri\" && nbdcopy --connections=4 \"$uri\" out && nbdinfo --map \"$uri\"";
        let ended = serve(&folder, &["--pace", pace], script).ok();
        let copied = std::fs::read(folder.path().join("out")).expect("a copy");
        assert!(copied[..content.len()] == content, "the same bytes");
        assert!(copied[content.len()..].iter().all(|&byte| byte == 0));
        let map: Vec<_> = ended.out.lines().map(|line| line.split_whitespace().collect::<Vec<_>>()).collect();
        assert_eq!(map[1][..3], ["1048576", "2097152", "0"], "{}", ended.out);
        assert_eq!(map[2][2], "3", "{}", ended.out);
    }
}

/// nbdsh issues what other clients do not, also invalid commands.
#[test]
fn every_command_does_what_it_says() {
    if !clients(&[("nbdsh", "python3-libnbd")]) {
        return;
    }
    let script = r#"
import nbd, errno, os
h.set_strict_mode(0)
h.add_meta_context(nbd.CONTEXT_BASE_ALLOCATION)
h.connect_uri(os.environ["uri"])
assert h.get_structured_replies_negotiated()
h.pwrite(b"a" * 8192, 4096, nbd.CMD_FLAG_FUA)
h.pwrite(b"b" * 512, 512)
h.flush()
assert h.pread(16384, 0, nbd.CMD_FLAG_DF) == b"\0" * 512 + b"b" * 512 + b"\0" * 3072 + b"a" * 8192 + b"\0" * 4096
def extents(length):
    found = []
    h.block_status(length, 0, lambda context, offset, entries, error: found.extend(entries), 0)
    return found
assert extents(16384) == [12288, 0, 4096, 3], extents(16384)
h.trim(4096, 4096, nbd.CMD_FLAG_FUA)
assert h.pread(4096, 4096) == b"\0" * 4096
assert extents(16384) == [4096, 0, 4096, 3, 4096, 0, 4096, 3], extents(16384)
h.zero(4096, 8192, nbd.CMD_FLAG_NO_HOLE)
assert h.pread(4096, 8192) == b"\0" * 4096
assert extents(16384)[-2:] == [4096, 3]
h.zero(12288, 0, nbd.CMD_FLAG_FAST_ZERO)
assert extents(16384) == [16384, 3], extents(16384)
size = h.get_size()
def fails(code, call):
    try:
        call()
    except nbd.Error as error:
        assert error.errnum == code, error
    else:
        raise AssertionError(code)
fails(errno.ENOSPC, lambda: h.pwrite(b"x" * 512, size))
fails(errno.EINVAL, lambda: h.pread(512, size))
fails(errno.EINVAL, lambda: h.pread(100, 0))
fails(errno.EINVAL, lambda: h.pwrite(b"x" * 100, 0))
fails(errno.ENOTSUP, lambda: h.zero(4096, 0, nbd.CMD_FLAG_FAST_ZERO | nbd.CMD_FLAG_NO_HOLE))
h.trim(size, 0)
assert h.pread(512, 0) == b"\0" * 512
h.shutdown()
# The oldest handshake, and simple replies.
h = nbd.NBD()
h.set_request_structured_replies(False)
h.set_opt_mode(True)
h.connect_uri(os.environ["uri"])
h.set_export_name("other")
fails(errno.ENOENT, h.opt_info)
h.set_export_name("")
h.opt_go()
h.pwrite(b"c" * 4096, 0)
assert h.pread(4096, 0) == b"c" * 4096
fails(errno.EINVAL, lambda: h.pread(512, size))
h.shutdown()
print("all said")
"#;
    let folder = folder();
    folder.write("talk.py", script);
    // The bindings belong to the system's Python, even if another Python comes first.
    let script = "PATH=/usr/bin:$PATH nbdsh -c - < talk.py";
    let ended = serve(&folder, &["--quiet", "--pace", "none"], script).ok();
    assert!(ended.out.contains("all said"), "{ended:?}");
}

#[test]
fn fio_and_qemu_verify_what_they_write() {
    if !clients(&[("fio", "fio"), ("qemu-io", "qemu-utils"), ("qemu-img", "qemu-utils")]) {
        return;
    }
    let folder = folder();
    let script = "fio --name=a --ioengine=nbd --uri=\"$uri\" --rw=randwrite --bs=4k --iodepth=32 --size=16m \
        --verify=crc32c --verify_fatal=1 --minimal >/dev/null && \
        qemu-io -f raw -c 'write -P 9 -f 1m 128k' -c 'read -P 9 1m 128k' -c 'discard 1m 64k' -c 'read -P 0 1m 64k' \"$uri\" \
        && qemu-img bench -f raw -c 500 -d 16 -w \"$uri\" >/dev/null && qemu-img info \"$uri\"";
    let ended = serve(&folder, &["--pace", "none", "--json", "r.json"], script).ok();
    assert!(
        ended.out.contains("virtual size: 64 MiB") && !ended.out.contains("Pattern verification failed"),
        "{ended:?}"
    );
    let result: super::Json = serde_json::from_str(&folder.read("r.json")).expect("JSON");
    assert_eq!(result["jobs"][0]["write"]["total_ios"], result["requests"]["write"]);
    assert!(result["requests"]["write"].as_u64() >= Some(4096 + 500), "{}", result["requests"]);
    assert!(result["waf"].as_f64() >= Some(1.0) && result["time"]["virtual_ns"].as_u64() > Some(0));
    super::assert_causes_add_up(&result);
}

/// A read takes at least 60 µs of array time, 50 in sequence at least 3 ms.
#[test]
fn nothing_completes_earlier_than_the_model_says() {
    if !clients(&[("fio", "fio")]) {
        return;
    }
    let folder = folder();
    let script = |rw: &str| {
        format!(
            "fio --name=a --ioengine=nbd --uri=\"$uri\" --rw={rw} --bs=4k --iodepth=1 --size=200k \
         --output-format=json --output=fio.json"
        )
    };
    let slow = ["--set", "drive.nand.read_ns=2000000", "--json", "r.json", "--quiet"];
    serve(&folder, &slow, &[script("write"), script("randread")].join(" && ")).ok();
    let of = |file: &str| serde_json::from_str::<super::Json>(&folder.read(file)).expect("JSON");
    let (fio, model) = (of("fio.json"), of("r.json"));
    let mean = |job: &super::Json, at: &str| job["jobs"][0]["read"][at]["mean"].as_f64().expect("a mean");
    let (seen, said) = (mean(&fio, "lat_ns"), mean(&model, "clat_ns"));
    assert!(said >= 2e6, "the model: {said} ns");
    assert!(seen >= said, "{seen} ns at the client, {said} ns in the model");
    assert!(model["server"]["lag_ns"]["mean"].as_f64().is_some_and(|lag| lag >= 0.0), "{}", model["server"]);
}

#[test]
fn what_was_flushed_survives_a_killed_server() {
    if !clients(&[("qemu-io", "qemu-utils")]) {
        return;
    }
    let folder = folder();
    let uri = "nbd+unix:///?socket=s.sock";
    let io = |commands: &[String]| {
        let mut io = std::process::Command::new("qemu-io");
        io.current_dir(folder.path()).args(["-f", "raw"]);
        for command in commands {
            io.args(["-c", command]);
        }
        let out = io.arg(uri).output().expect("qemu-io runs");
        let text = String::from_utf8_lossy(&[out.stdout, out.stderr].concat()).into_owned();
        assert!(out.status.success() && !text.contains("failed"), "{text}");
    };
    let image = ["--image", "ssd.img", "--pace", "none"];
    for round in 1..=4_u32 {
        let server = Running::start(&folder, &image);
        let second =
            folder.strobe(&[&["serve", "--drive", "ssd.toml", "--socket", "t.sock"][..], &image].concat());
        second.refused(&["ssd.img", "another process has it open"]);
        let reads = (1..round).map(|old| format!("read -P {old} {old}m 1m")).collect::<Vec<_>>();
        let write = [format!("write -P {round} {round}m 1m"), "flush".to_owned()];
        // Written after the flush: either version is valid, and it must not damage other data.
        let more = [format!("write -P 99 {}m 512k", 10 + round)];
        io(&[&reads[..], &write, &more].concat());
        server.kill();
    }
    let fsck = folder.strobe(&["fsck", "ssd.img"]);
    assert_eq!(fsck.code, 0, "{fsck:?}");
}

#[test]
fn a_server_that_is_ended_settles_its_drive() {
    if !clients(&[("qemu-io", "qemu-utils")]) {
        return;
    }
    let folder = folder();
    let image = ["--image", "ssd.img", "--pace", "none"];
    let mut server = Running::start(&folder, &image);
    let mode = std::fs::metadata(folder.path().join("s.sock")).expect("a socket").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let taken = folder.strobe(&["serve", "--drive", "ssd.toml", "--socket", "s.sock"]);
    taken.refused(&["s.sock", "another server listens there"]);
    let write = "qemu-io -t unsafe -f raw -c 'write -P 7 0 1m' 'nbd+unix:///?socket=s.sock'";
    let done = std::process::Command::new("sh").args(["-c", write]).current_dir(folder.path()).output();
    assert!(done.expect("a shell").status.success());
    let pid = server.0.id().to_string();
    let sent = std::process::Command::new("kill").args(["-TERM", &pid]).status();
    assert!(sent.expect("kill").success());
    assert_eq!(server.0.wait().expect("it ends").code(), Some(0), "an orderly end");
    assert!(!folder.path().join("s.sock").exists(), "the socket is gone");
    let read = "qemu-io -r -f raw -c 'read -P 7 0 1m' \"$uri\"";
    let ended = serve(&folder, &image, read).ok();
    assert!(!ended.out.contains("failed"), "{ended:?}");
}

#[test]
fn addresses_of_other_machines_are_refused() {
    let folder = folder();
    let port = |address: &str| folder.strobe(&["serve", "--drive", "ssd.toml", "--port", address]);
    port("0.0.0.0:0").refused(&["0.0.0.0:0", "unencrypted", "127.0.0.1"]);
    port("[::]:0").refused(&["unencrypted"]);
    port("elsewhere").refused(&["elsewhere", "a port from 0 to 65535"]);
    folder
        .strobe(&["serve", "--drive", "ssd.toml", "--socket", "ssd.toml"])
        .refused(&["ssd.toml", "not a socket"]);
    if clients(&[("nbdinfo", "libnbd-bin")]) {
        let size = serve(&folder, &["--quiet", "--port", "0"], "nbdinfo --size \"$uri\"").ok().out;
        assert_eq!(size.trim(), "67108864");
    }
}

#[test]
fn connections_are_encrypted() {
    if !clients(&[("nbdinfo", "libnbd-bin"), ("nbdcopy", "libnbd-bin"), ("openssl", "openssl")]) {
        return;
    }
    let folder = folder();
    let make = |name: &str| {
        let mut openssl = std::process::Command::new("openssl");
        openssl.args([
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:P-256",
            "-nodes",
            "-days",
            "2",
        ]);
        openssl.args(["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]);
        openssl.args(["-keyout", &format!("{name}.key"), "-out", &format!("{name}.pem")]);
        assert!(openssl.current_dir(folder.path()).output().expect("openssl runs").status.success());
        std::fs::create_dir(folder.path().join(name)).expect("a folder");
        let ca = folder.path().join(name).join("ca-cert.pem");
        std::fs::copy(folder.path().join(format!("{name}.pem")), ca).expect("a certificate");
    };
    make("mine");
    make("other");
    folder.write("in", vec![7; 40 << 20]);
    let tls = ["--pace", "none", "--port", "127.0.0.1:0", "--tls-cert", "mine.pem", "--tls-key", "mine.key"];
    let script = r#"
        case "$uri" in nbds://127.0.0.1:*) ;; *) echo "$uri"; exit 1;; esac
        uri=$(echo "$uri" | sed s/127.0.0.1/localhost/)
        nbdinfo --size "$uri?tls-certificates=$PWD/mine" || exit 2
        nbdcopy in "$uri?tls-certificates=$PWD/mine" || exit 3
        nbdcopy "$uri?tls-certificates=$PWD/mine" out || exit 4
        cmp -n 41943040 in out || exit 5
        nbdinfo --size "$uri?tls-certificates=$PWD/other" && exit 6
        nbdinfo --size "$(echo "$uri" | sed s/nbds/nbd/)" && exit 7
        head -c 100000 /dev/urandom | timeout 5 openssl s_client -connect "$(echo "$uri" | cut -d / -f 3)"
        nbdinfo --size "$uri?tls-certificates=$PWD/mine""#;
    let out = serve(&folder, &[&["--quiet"], &tls[..]].concat(), script).ok().out;
    assert!(out.lines().filter(|line| *line == "67108864").count() == 2, "{out}");
    // The certificate of a client must be issued by one of the server's.
    let clients = [&["--quiet", "--tls-clients", "mine.pem"], &tls[..]].concat();
    for name in ["mine", "other"] {
        let to = folder.path().join(format!("{name}-client"));
        std::fs::create_dir_all(&to).expect("a folder");
        std::fs::copy(folder.path().join("mine.pem"), to.join("ca-cert.pem")).expect("a file");
        let mut openssl = std::process::Command::new("openssl");
        openssl.args([
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:P-256",
            "-nodes",
            "-days",
            "2",
        ]);
        openssl.args(["-subj", "/CN=client", "-addext", "basicConstraints=critical,CA:FALSE"]);
        openssl.args(["-CA", &format!("{name}.pem"), "-CAkey", &format!("{name}.key")]);
        let [key, certificate] = ["key", "cert"].map(|kind| format!("{name}-client/client-{kind}.pem"));
        openssl.args(["-keyout", &key, "-out", &certificate]);
        let made = openssl.current_dir(folder.path()).output().expect("openssl runs");
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    }
    let script = r#"
        uri=$(echo "$uri" | sed s/127.0.0.1/localhost/)
        nbdinfo --size "$uri?tls-certificates=$PWD/mine-client" || exit 2
        nbdinfo --size "$uri?tls-certificates=$PWD/mine" && exit 3
        nbdinfo --size "$uri?tls-certificates=$PWD/other-client" && exit 4
        nbdinfo --size "$uri?tls-certificates=$PWD/mine-client""#;
    let out = serve(&folder, &clients, script).ok().out;
    assert_eq!(out.lines().filter(|line| *line == "67108864").count(), 2, "{out}");
    let wrong = [&["--tls-clients", "ssd.toml"], &tls[..]].concat();
    serve(&folder, &wrong, "true").refused(&["ssd.toml", "it contains no certificate"]);
    serve(&folder, &["--port", "0", "--tls-clients", "mine.pem"], "true").refused(&["--tls-cert"]);
    // With encryption, other machines may connect.
    let everywhere = ["--quiet", "--port", "0.0.0.0:0", "--tls-cert", "mine.pem", "--tls-key", "mine.key"];
    let out = serve(&folder, &everywhere, "echo $uri").ok().out;
    assert!(out.contains("nbds://HOST:"), "{out}");
    serve(&folder, &["--port", "0", "--tls-cert", "ssd.toml", "--tls-key", "mine.key"], "true")
        .refused(&["ssd.toml", "it contains no certificate"]);
    serve(&folder, &["--port", "0", "--tls-cert", "mine.pem", "--tls-key", "other.key"], "true")
        .refused(&["other.key"]);
    serve(&folder, &["--port", "0", "--tls-cert", "mine.pem"], "true").refused(&["--tls-key"]);
    serve(&folder, &["--tls-cert", "mine.pem", "--tls-key", "mine.key"], "true").refused(&["--port"]);
    let both = [&["--nvme", "0.0.0.0:0"], &tls[..]].concat();
    serve(&folder, &both, "true").refused(&["0.0.0.0:0", "unencrypted"]);
}

#[test]
fn clients_that_misbehave_harm_nobody() {
    use std::io::Write as _;
    use std::os::unix::net::UnixStream;
    let folder = folder();
    let server = Running::start(&folder, &["--pace", "none"]);
    let socket = folder.path().join("s.sock");
    let resident = || {
        let status = std::fs::read_to_string(format!("/proc/{}/status", server.0.id())).expect("its status");
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("its memory");
        line.split_whitespace().next().and_then(|kib| kib.parse::<u64>().ok()).expect("a number")
    };
    let connect = || UnixStream::connect(&socket).expect("it listens");
    connect();
    let before = resident();
    for _ in 0..10_000 {
        connect();
    }
    let size = 64_u32 << 20;
    for round in 0..100_u32 {
        let mut client = connect();
        let hello = [&[0, 0, 0, 3][..], b"IHAVEOPT\0\0\0\x01\0\0\0\0"].concat();
        let write = |offset: u64, bytes: u32| {
            let head = [0x2560_9513, 0x0001, 0, 7].map(u32::to_be_bytes).concat();
            [&hello[..], &head, &offset.to_be_bytes(), &bytes.to_be_bytes()].concat()
        };
        let bytes = match round % 4 {
            0 => [write(0, 32 << 20), vec![7; 100_000]].concat(),
            1 => [write(0, u32::MAX), vec![7; 100_000]].concat(),
            2 => [write(u64::from(size), 512), vec![7; 100]].concat(),
            _ => [&hello[..], &[0xff; 100_000]].concat(),
        };
        // The server may close the connection before it has read everything.
        let _ = client.write_all(&bytes);
    }
    let silent: Vec<_> = (0..10).map(|_| connect()).collect();
    // Clients wait to be accepted, even after they disconnect.
    let stats = (0..600).find_map(|_| {
        std::thread::sleep(Duration::from_millis(100));
        let stats = folder.strobe(&["ctl", "s.sock", "stats"]).ok().json();
        (stats["server"]["connections"].as_u64() >= Some(10_101)).then_some(stats)
    });
    let stats = stats.expect("all clients are accepted within a minute");
    assert_eq!(stats["requests"]["write"], 0, "no write was whole");
    let grown = resident().saturating_sub(before);
    assert!(grown < 64 << 10, "{grown} KiB more than before");
    drop(silent);
    if clients(&[("nbdinfo", "libnbd-bin")]) {
        let mut info = std::process::Command::new("nbdinfo");
        info.args(["--size", "nbd+unix:///?socket=s.sock"]).current_dir(folder.path());
        let info = info.output().expect("nbdinfo runs");
        assert_eq!(String::from_utf8_lossy(&info.stdout).trim(), "67108864");
    }
    server.kill();
}

#[test]
fn a_server_that_is_ended_ends_its_command_as_a_whole() {
    let folder = folder();
    let script = "sleep 1000 & echo $! > new && mv new pid; wait";
    let args = ["serve", "--drive", "ssd.toml", "--quiet", "--run", script];
    let mut server = folder.command(&args).stdin(Stdio::null()).spawn().expect("the program starts");
    let pid = (0..3000).find_map(|_| {
        std::thread::sleep(Duration::from_millis(10));
        std::fs::read_to_string(folder.path().join("pid")).ok()
    });
    let pid = pid.expect("the command runs");
    let sent = std::process::Command::new("kill").args(["-TERM", &server.id().to_string()]).status();
    assert!(sent.expect("kill").success());
    assert_eq!(server.wait().expect("it ends").code(), Some(143));
    // The signal may not have been delivered yet, or its new parent may not have reaped it.
    let state = || std::fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
    let has_ended = (0..500).any(|_| {
        std::thread::sleep(Duration::from_millis(10));
        state().is_empty() || state().contains(") Z ")
    });
    assert!(has_ended, "it runs on: {}", state());
}

#[test]
fn the_exit_code_of_a_command_that_a_signal_ended_says_which() {
    let folder = folder();
    let args = ["serve", "--drive", "ssd.toml", "--quiet", "--run", "kill -9 $$"];
    assert_eq!(folder.command(&args).status().expect("the program starts").code(), Some(137));
}

#[test]
fn a_command_writes_nothing_into_the_result() {
    let ended = serve(&folder(), &["--quiet", "--json", "-"], "echo said by the command").ok();
    assert_eq!(ended.json()["requests"]["failed"], 0);
    ended.says(&["said by the command"]);
}
