//! `strobe ctl` and `strobe top`: clients of a control socket.

use std::io::{BufRead as _, BufReader, ErrorKind, Write as _};
use std::os::unix::fs::FileTypeExt as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::anyhow;
use clap::Args;
use serde_json::Value;
use strobe_cli::report;
use strobe_lab::Time;

use super::{Failure, output};

/// Ask a server about its drive, or control it in ways only a simulation allows.
///
/// Prints the answer as JSON. `cut`, `rewind` and `age` close the clients' connections, because their view of
/// the drive is stale; clients reconnect. A drive on an image supports only `stats`, `faults` and `stop`.
#[derive(Args)]
#[command(after_help = "Commands:\n  stats            the counters, as --json writes them\n  \
    cut              cut the power now; the drive recovers and continues\n  \
    snapshot [NAME]  save the drive's current state\n  \
    rewind [NAME]    restore a snapshot, including the drive's counters\n  \
    age [N]          a new drive, written once in order and N times (2) at random; what was stored is gone,\n                   \
    and the drive's counters begin anew\n  \
    faults N         N units at random places cannot be read until they are written again\n  \
    faults A-B       the units that hold sectors A to B cannot be read until they are written again\n  \
    stop             end the server")]
pub(crate) struct CtlArgs {
    /// Socket of the server: its client socket or its control socket
    #[arg(value_name = "SOCKET")]
    socket: PathBuf,
    /// Command, and its argument
    #[arg(value_name = "COMMAND", num_args = 1..=2, required = true)]
    command: Vec<String>,
}

/// Show the activity of a server's drive: requests, latency, write amplification by cause, free blocks, dies,
/// wear.
#[derive(Args)]
pub(crate) struct TopArgs {
    /// Socket of the server: its client socket or its control socket
    #[arg(value_name = "SOCKET")]
    socket: PathBuf,
    /// Time between two updates: 1s, 500ms; 10ms to 1h
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = interval)]
    interval: Time,
    /// Number of updates; 0: no limit
    #[arg(long, value_name = "N", default_value_t = 0)]
    count: u64,
}

fn interval(text: &str) -> Result<Time, String> {
    match Time::parse(text) {
        Some(time) if (10_000_000..=3_600_000_000_000).contains(&time.as_ns()) => Ok(time),
        _ => Err("a time from 10ms to 1h with its unit: 500ms, 1s, 1m".to_owned()),
    }
}

pub(super) fn socket_of(socket: &Path) -> PathBuf {
    let mut path = socket.as_os_str().to_owned();
    path.push(".ctl");
    path.into()
}

/// Time within which a server answers, unless it is busy.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

struct Control(BufReader<UnixStream>);

impl Control {
    fn connect(socket: &Path) -> Result<Self, Failure> {
        // The user may name the client socket. The control socket is then at that path plus .ctl.
        let in_folder = socket_of(socket);
        let path = if in_folder.exists() { &in_folder } else { socket };
        let is_file = |path: &Path| path.metadata().is_ok_and(|found| !found.file_type().is_socket());
        if is_file(path) {
            return Err(Failure::Request(anyhow!(
                "{}: not a socket; give the socket of a server (strobe serve --socket PATH)",
                path.display()
            )));
        }
        let stream = UnixStream::connect(path).map_err(|error| {
            Failure::Request(anyhow!(
                "{}: no server listens there ({error}); start one with strobe serve --socket {0}",
                socket.display()
            ))
        })?;
        let limits = stream
            .set_read_timeout(Some(ANSWER_TIMEOUT))
            .and_then(|()| stream.set_write_timeout(Some(ANSWER_TIMEOUT)));
        limits.map_err(|error| Failure::Run(anyhow!("{}: {error}", path.display())))?;
        Ok(Self(BufReader::new(stream)))
    }

    /// Sends `command`, which may take long, without a timeout. A preceding `stats` proves that a server
    /// answers.
    fn order(&mut self, command: &str) -> Result<Value, Failure> {
        self.ask("stats")?;
        let unlimited = self.0.get_ref().set_read_timeout(None);
        unlimited.map_err(|error| Failure::Run(anyhow!("the server is gone: {error}")))?;
        self.ask(command)
    }

    fn ask(&mut self, question: &str) -> Result<Value, Failure> {
        let failed = |error: std::io::Error| match error.kind() {
            ErrorKind::WouldBlock | ErrorKind::TimedOut => Failure::Run(anyhow!(
                "no answer within {} s: not a control socket (its path is that of --socket, else of --vhost, plus \
                 .ctl), or the server is busy with another command, such as age; try again",
                ANSWER_TIMEOUT.as_secs()
            )),
            _ => Failure::Run(anyhow!("the server is gone: {error}")),
        };
        self.0.get_mut().write_all(format!("{question}\n").as_bytes()).map_err(failed)?;
        let mut line = String::new();
        self.0.read_line(&mut line).map_err(failed)?;
        if line.is_empty() {
            return Err(Failure::Run(anyhow!(
                "no answer: the server has ended, or this is not a control socket (its path is that of --socket, else \
                 of --vhost, plus .ctl)"
            )));
        }
        let answer: Value = serde_json::from_str(&line)
            .map_err(|error| Failure::Run(anyhow!("not a control socket of strobe serve: {error}")))?;
        match answer.get("error").and_then(Value::as_str) {
            Some(error) => Err(Failure::Request(anyhow!("{error}"))),
            None => Ok(answer),
        }
    }
}

pub(crate) fn ctl(args: &CtlArgs) -> Result<(), Failure> {
    let answer = Control::connect(&args.socket)?.order(&args.command.join(" "))?;
    output::print(&output::json_text(&answer))
}

#[allow(clippy::disallowed_methods, reason = "it shows a server of the real world")]
pub(crate) fn top(args: &TopArgs) -> Result<(), Failure> {
    let mut control = Control::connect(&args.socket)?;
    let mut before = control.ask("stats")?;
    let mut shown = 0;
    while args.count == 0 || shown < args.count {
        std::thread::sleep(Duration::from_nanos(args.interval.as_ns()));
        let now = control.ask("stats")?;
        output::print(&report::top(&before, &now))?;
        before = now;
        shown += 1;
    }
    Ok(())
}
