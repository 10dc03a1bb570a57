//! `strobe ctl` and `strobe top`: clients of a control socket.

use std::io::{BufRead as _, BufReader, Write as _};
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

/// Ask a server about its drive, or do to it what only a simulation can.
///
/// Prints the answer as JSON. After cut, rewind and age the clients' connections are closed, as what they know is of another
/// drive; they connect again. A drive on an image has `stats`, `faults` and `stop` only.
#[derive(Args)]
#[command(after_help = "Commands:\n  stats            the counters, as --json writes them\n  \
    cut              cut the power at this moment; the drive recovers and goes on\n  \
    snapshot [NAME]  keep the drive as it is now\n  \
    rewind [NAME]    go back to a snapshot, the drive's counters, too\n  \
    age [N]          a new drive, written once in order and N times (2) at random; what was stored is gone,\n                   \
    and the drive's counters begin anew\n  \
    faults N         N units at random places cannot be read until they are written again\n  \
    faults A-B       the units that hold sectors A to B cannot be read until they are written again\n  \
    stop             end the server")]
pub(crate) struct CtlArgs {
    /// Socket of the server: that of clients, or its control socket
    #[arg(value_name = "SOCKET")]
    socket: PathBuf,
    /// Command, and its argument
    #[arg(value_name = "COMMAND", num_args = 1..=2, required = true)]
    command: Vec<String>,
}

/// Show what a server's drive does: requests, latency, write amplification by cause, free blocks, dies, wear.
#[derive(Args)]
pub(crate) struct TopArgs {
    /// Socket of the server: that of clients, or its control socket
    #[arg(value_name = "SOCKET")]
    socket: PathBuf,
    /// Time between two pictures: 1s, 500ms
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = interval)]
    interval: Time,
    /// Pictures after which it ends; 0: never
    #[arg(long, value_name = "N", default_value_t = 0)]
    count: u64,
}

fn interval(text: &str) -> Result<Time, String> {
    match Time::parse(text) {
        Some(time) if (10_000_000..=3_600_000_000_000).contains(&time.as_ns()) => Ok(time),
        _ => Err("a time from 10ms to 1h with its unit: 500ms, 1s, 1m".to_owned()),
    }
}

/// Control socket of the server whose clients connect to `socket`.
pub(super) fn socket_of(socket: &Path) -> PathBuf {
    let mut path = socket.as_os_str().to_owned();
    path.push(".ctl");
    path.into()
}

/// A connection to a control socket.
struct Control(BufReader<UnixStream>);

impl Control {
    fn connect(socket: &Path) -> Result<Self, Failure> {
        let beside = socket_of(socket);
        let path = if beside.exists() { &beside } else { socket };
        let is_file = |path: &Path| path.metadata().is_ok_and(|found| !found.file_type().is_socket());
        if is_file(path) {
            return Err(Failure::Request(anyhow!(
                "{}: this is no socket; name that of a server (strobe serve --socket PATH)",
                path.display()
            )));
        }
        let stream = UnixStream::connect(path).map_err(|error| {
            Failure::Request(anyhow!(
                "{}: no server takes commands there ({error}); strobe serve --socket {0} would",
                socket.display()
            ))
        })?;
        Ok(Self(BufReader::new(stream)))
    }

    fn ask(&mut self, question: &str) -> Result<Value, Failure> {
        let failed = |error: std::io::Error| Failure::Run(anyhow!("the server is gone: {error}"));
        self.0.get_mut().write_all(format!("{question}\n").as_bytes()).map_err(failed)?;
        let mut line = String::new();
        self.0.read_line(&mut line).map_err(failed)?;
        if line.is_empty() {
            return Err(Failure::Run(anyhow!(
                "no answer: the server has ended, or this is no control socket; that is the path of --socket, or without \
                 one of --vhost, and .ctl"
            )));
        }
        let answer: Value = serde_json::from_str(&line)
            .map_err(|error| Failure::Run(anyhow!("that is no control socket of strobe serve: {error}")))?;
        match answer.get("error").and_then(Value::as_str) {
            Some(error) => Err(Failure::Request(anyhow!("{error}"))),
            None => Ok(answer),
        }
    }
}

pub(crate) fn ctl(args: &CtlArgs) -> Result<(), Failure> {
    let answer = Control::connect(&args.socket)?.ask(&args.command.join(" "))?;
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
