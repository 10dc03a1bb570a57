//! A server whose process has no file descriptor left. The limit is that of the process, so this is its only
//! test.

#![cfg(target_os = "linux")]

use std::fs::File;
use std::io::Read as _;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use strobe_lab::Experiment;
use strobe_lab::machine::Stopwatch;
use strobe_serve::nbd::Export;
use strobe_serve::nvme_tcp::{NQN, Options, Subsystem};
use strobe_serve::{Address, Beginning, Desk, Engine, Pace, Protocol, Server, Sockets};
use strobe_types::{SimTime, StopFlag};

const EXPERIMENT: &str = "\
[drive.nand]
blocks_per_plane = 32
pages_per_block = 8
data = \"bytes\"
[drive.ftl]
logical_pages = 160
";

fn server(sockets: &Sockets) -> Server {
    let experiment = Experiment::from_toml(EXPERIMENT).expect("an experiment");
    let drive = strobe_ssd::build(&experiment.drive, true, 1).expect("a drive");
    let export = Export {
        name: "strobe".into(),
        description: String::new(),
        sectors: drive.sectors(),
        block_bytes: 4096,
        read_only: false,
    };
    let beginning = Beginning::of(experiment, &*drive, SimTime::ZERO, None, false);
    let desk = Desk::new(beginning, Stopwatch::start(), StopFlag::default());
    let subsystem = Subsystem::new(NQN, Options::default());
    let engine = Engine::new(drive, SimTime::ZERO, Pace::None);
    Server::bind(sockets, engine, export, subsystem, desk, 64).expect("it listens")
}

/// Clients and askers wait in the queues of their sockets; the server waits too, instead of trying again at
/// once.
#[test]
fn a_server_without_file_descriptors_waits_for_one() {
    let folder = tempfile::tempdir().expect("a folder");
    let (socket, control) = (folder.path().join("s"), folder.path().join("c"));
    let addresses = vec![(Address::Unix(socket.clone()), Protocol::Nbd)];
    let mut server = server(&Sockets { addresses, control: Some(control.clone()), ..Sockets::default() });
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
    // Longest wait: 50 ms; an attempt each 100 ms wakes the server twice.
    assert!(turns <= 40, "{turns} turns in 0.6 s");
    held.take();
    run(&mut server, 0.4, &mut turns);
    assert_eq!(server.result().server.connections, 1, "accepted as soon as there was a file descriptor");
    let mut greeting = [0; 8];
    client.read_exact(&mut greeting).expect("a greeting");
    assert_eq!(&greeting, b"NBDMAGIC");
}
