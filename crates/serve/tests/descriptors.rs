//! A server whose process has run out of file descriptors. The limit applies to the process, so this is its
//! only test.

#![cfg(target_os = "linux")]

mod common;

use std::fs::File;
use std::io::Read as _;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use strobe_lab::machine::Stopwatch;
use strobe_serve::{Address, Pace, Protocol, Server, Sockets};
use strobe_types::StopFlag;

#[test]
fn a_server_without_file_descriptors_waits_for_one() {
    let folder = tempfile::tempdir().expect("a folder");
    let (socket, control) = (folder.path().join("s"), folder.path().join("c"));
    let addresses = vec![(Address::Unix(socket.clone()), Protocol::Nbd)];
    let sockets = Sockets { addresses, control: Some(control.clone()), ..Sockets::default() };
    let mut server = common::server("", Pace::None, &sockets);
    let limit = Rlimit { current: Some(64), ..getrlimit(Resource::Nofile) };
    setrlimit(Resource::Nofile, limit).expect("a lower limit");
    let mut client = UnixStream::connect(&socket).expect("it listens");
    let _asker = UnixStream::connect(&control).expect("it listens");
    client.set_read_timeout(Some(Duration::from_secs(10))).expect("a socket");
    let mut held = Some(std::iter::from_fn(|| File::open("/dev/null").ok()).collect::<Vec<_>>());
    let (watch, mut turns) = (Stopwatch::start(), 0);
    let run = |server: &mut Server, seconds: f64, turns: &mut u32| {
        let end = watch.wall_s() + seconds;
        let mut is_over = || {
            *turns += 1;
            watch.wall_s() > end
        };
        server.serve(&StopFlag::default(), &mut is_over).expect("it serves");
    };
    run(&mut server, 0.6, &mut turns);
    assert_eq!(server.result().server.connections, 0, "no file descriptor for it");
    // The longest wait is 50 ms. An attempt every 100 ms wakes the server twice.
    assert!(turns <= 40, "{turns} turns in 0.6 s");
    held.take();
    let mut tries = 0;
    while server.result().server.connections == 0 {
        run(&mut server, 0.1, &mut turns);
        tries += 1;
        assert!(tries < 100, "not accepted, though there is a file descriptor");
    }
    let mut greeting = [0; 8];
    client.read_exact(&mut greeting).expect("a greeting");
    assert_eq!(&greeting, b"NBDMAGIC");
}
