//! Clients of the control and metrics sockets.

#![cfg(target_os = "linux")]

mod common;

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{Shutdown, TcpStream};
use std::os::unix::net::UnixStream;
use std::thread::scope;
use std::time::Duration;

use serde_json::Value;
use strobe_serve::{Pace, Sockets};
use strobe_types::StopFlag;

/// Clients connect one after the other, stay, and send their lines at once.
///
/// With `shuts`, they then close their sending side. Before them, `silent` clients connect to the metrics and
/// send nothing.
fn answers<const N: usize>(clients: [&str; N], shuts: bool, silent: usize) -> [Vec<Value>; N] {
    let folder = tempfile::tempdir().expect("a folder");
    let control = folder.path().join("c");
    let any = "127.0.0.1:0".parse().expect("an address");
    let sockets = Sockets { control: Some(control.clone()), metrics: Some(any), ..Sockets::default() };
    let mut server = common::server("", Pace::None, &sockets);
    let metrics = server.metrics_address().expect("an address");
    let client = move || {
        let connect = |_| TcpStream::connect(metrics).expect("it listens");
        let _silent: Vec<_> = (0..silent).map(connect).collect();
        let mut streams = Vec::new();
        clients.map(|lines| {
            let mut stream = UnixStream::connect(&control).expect("it listens");
            // A failing test must not wait for ever.
            stream.set_read_timeout(Some(Duration::from_secs(10))).expect("a socket");
            stream.write_all(lines.as_bytes()).expect("it hears");
            if shuts {
                stream.shutdown(Shutdown::Write).expect("a socket");
            }
            streams.push(stream.try_clone().expect("another of it"));
            let answers = BufReader::new(stream).lines().take(lines.lines().count());
            let parse = |line: String| serde_json::from_str(&line).expect("JSON");
            answers.map_while(Result::ok).map(parse).collect()
        })
    };
    scope(|threads| {
        let client = threads.spawn(client);
        server.serve(&StopFlag::default(), &mut || client.is_finished()).expect("it serves");
        client.join().expect("the client is done")
    })
}

#[test]
fn commands_that_come_together_are_all_answered() {
    for shuts in [false, true] {
        let [answers] = answers(["snapshot a\nrewind a\nsnapshot b\ncut\nsnapshot c\n"], shuts, 0);
        assert_eq!(answers.len(), 5, "{answers:?}");
        for (at, name) in [(0, "a"), (2, "b"), (4, "c")] {
            assert_eq!(answers[at]["snapshot"], name, "{answers:?}");
        }
    }
}

#[test]
fn silent_clients_of_the_metrics_keep_nobody_from_the_control_socket() {
    for answers in answers(["snapshot a\n"; 3], false, 40) {
        assert_eq!(answers.len(), 1);
    }
}
