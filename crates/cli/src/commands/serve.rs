//! `strobe serve`: the drive as a block device of this machine.

use std::io::IsTerminal as _;
use std::net::SocketAddr;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

use anyhow::anyhow;
use clap::Args;
use rustix::process::{Pid, Signal, kill_process_group};
use strobe_cli::output::Output;
use strobe_cli::report::{self, Style};
use strobe_lab::machine::Stopwatch;
use strobe_lab::{Experiment, RunError, runner};
use strobe_serve::nbd::Export;
use strobe_serve::nvme_tcp::{self, Subsystem};
use strobe_serve::{
    Address, Beginning, ControlCommands, Engine, Pace, Protocol, ServeError, ServeResult, Server, Sockets,
    Tls,
};
use strobe_ssd::{Ageing, Recovery, Simulated};
use strobe_types::{SimTime, StopFlag};

use super::linux::capacities;
use super::linux::guest;
use super::options::{OUTPUT, one_of, seed};
use super::{Failure, output, signals};

const SERVER: &str = "Server";

/// Serve the drive as a block device to programs of this machine, over NBD, NVMe/TCP or vhost-user.
///
/// Needs no root and no kernel module. NBD clients (nbdinfo, nbdcopy, nbdsh, qemu, qemu-img, qemu-io, fio,
/// nbdkit, nbd-client) connect to its socket, accessible only to its owner. Linux hosts and guests connect to
/// --nvme as to any NVMe/TCP target. QEMU virtual machines attach --vhost as a virtio disk. SIGTERM or SIGINT
/// ends the server: submitted requests complete, the drive persists its write buffer, and a summary is
/// printed.
#[derive(Args)]
#[command(after_help = "Examples:\n  strobe serve --socket ssd.sock\n  \
    strobe serve --run 'nbdinfo \"$uri\"'\n  \
    strobe serve --pace none --run 'fio --name=a --ioengine=nbd --uri=\"$uri\" --rw=randwrite --size=64m --bs=4k'\n  \
    strobe serve --image ssd.img --socket ssd.sock --drive generic-8g\n  \
    strobe serve --port 10809\n  \
    strobe serve --nvme 4420\n  \
    strobe serve --vhost ssd.vhost")]
pub(crate) struct ServeArgs {
    /// A preset (`strobe list presets`) or a TOML file with the keys of [drive]
    #[arg(long, value_name = "PRESET|FILE.toml", default_value = "tlc-nvme-1t")]
    drive: String,
    /// Override a key of the drive: --set drive.nand.blocks_per_plane=64 (repeatable)
    #[arg(long = "set", value_name = "KEY.PATH=VALUE")]
    sets: Vec<String>,
    /// Seed of all random decisions in the drive
    #[arg(long, allow_negative_numbers = true, value_parser = seed)]
    seed: Option<u64>,
    /// Keep the drive's flash in FILE: created if missing, else recovered as after a power cut. Flushed data
    /// survives a killed server. Without it the drive is in memory
    #[arg(long, value_name = "FILE")]
    image: Option<PathBuf>,
    /// Pace of the drive's time. model: real time, no request completes earlier than the model says. none:
    /// time advances only while requests are in flight, as fast as they can be simulated
    #[arg(long, value_name = "PACE", default_value = Pace::Model.name(), value_parser = one_of(&Pace::ALL, Pace::name))]
    pace: Pace,
    /// Listen on this Unix socket [default: strobe.sock, or a hidden one with --run, unless --port, --nvme or
    /// --vhost is given]
    #[arg(help_heading = SERVER, long, value_name = "PATH")]
    socket: Option<PathBuf>,
    /// Listen on this TCP port of 127.0.0.1, or on ADDRESS:PORT with a loopback address; port 0 picks a free
    /// one
    #[arg(help_heading = SERVER, long, value_name = "[ADDRESS:]PORT", value_parser = tcp)]
    port: Option<SocketAddr>,
    /// Encrypt NBD on --port with this PEM certificate, followed by its issuers; clients connect to nbds://.
    /// Addresses other than loopback are then allowed
    #[arg(help_heading = SERVER, long, value_name = "FILE", requires_all = ["tls_key", "port"])]
    tls_cert: Option<PathBuf>,
    /// Private key of --tls-cert, in PEM
    #[arg(help_heading = SERVER, long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// Admit only clients whose certificate one of these PEM certificates has issued. Without it, anyone who
    /// reaches the port can read and write the drive
    #[arg(help_heading = SERVER, long, value_name = "FILE", requires = "tls_cert")]
    tls_clients: Option<PathBuf>,
    /// Serve the drive over NVMe/TCP on this port of 127.0.0.1, or on ADDRESS:PORT with a loopback address;
    /// the default port of hosts is 4420
    #[arg(help_heading = SERVER, long, value_name = "[ADDRESS:]PORT", value_parser = tcp)]
    nvme: Option<SocketAddr>,
    /// Serve the drive on this Unix socket to vhost-user virtual machines, as a virtio block device
    #[arg(help_heading = SERVER, long, value_name = "PATH")]
    vhost: Option<PathBuf>,
    /// NVMe qualified name of the drive, by which hosts connect
    #[arg(help_heading = SERVER, long, value_name = "NAME", default_value = nvme_tcp::NQN, value_parser = nqn)]
    nqn: String,
    /// Age the drive before serving it, without advancing virtual time: write it once in order, then N times
    /// (2 if no number is given) its capacity at random. The data is not kept
    #[arg(
        long,
        value_name = "N",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "2",
        conflicts_with = "image",
        value_parser = capacities
    )]
    age: Option<f64>,
    /// Name of the export; also the default for clients that name none
    #[arg(help_heading = SERVER, long, value_name = "NAME", default_value = "strobe", value_parser = export_name)]
    export: String,
    /// Refuse writes
    #[arg(help_heading = SERVER, long)]
    read_only: bool,
    /// Maximum number of connected clients; further ones wait
    #[arg(help_heading = SERVER, long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u16).range(1..=512))]
    connections: u16,
    /// Accept commands of `strobe ctl` and `strobe top` on this Unix socket [default: path of --socket, else
    /// of --vhost, plus .ctl]
    #[arg(help_heading = SERVER, long, value_name = "PATH")]
    control: Option<PathBuf>,
    /// Serve Prometheus metrics on this TCP port of 127.0.0.1, or on ADDRESS:PORT with a loopback address:
    /// http://127.0.0.1:PORT/metrics
    #[arg(help_heading = SERVER, long, value_name = "[ADDRESS:]PORT", value_parser = tcp)]
    metrics: Option<SocketAddr>,
    /// Serve while a shell runs COMMAND, then exit with its exit code. COMMAND finds the address in $uri, the
    /// socket path in $unixsocket, the NVMe/TCP port in $nvme_port and the --vhost socket in $vhost
    #[arg(help_heading = SERVER, long, value_name = "COMMAND")]
    run: Option<String>,
    /// Write the result as JSON to FILE, or to standard output with "-"
    #[arg(help_heading = OUTPUT, long, value_name = "FILE|-")]
    json: Option<String>,
    /// Print no address and no summary
    #[arg(help_heading = OUTPUT, long, short)]
    quiet: bool,
}

fn tcp(text: &str) -> Result<SocketAddr, String> {
    let port = text.parse::<u16>().map(|port| SocketAddr::from(([127, 0, 0, 1], port)));
    port.ok().or_else(|| text.parse().ok()).ok_or_else(|| {
        "a port from 0 to 65535, or an address of this machine with a port: 127.0.0.1:10809, [::1]:10809"
            .to_owned()
    })
}

fn export_name(text: &str) -> Result<String, String> {
    match text {
        "" => Err("a name has at least one byte".to_owned()),
        text if text.len() > 4096 => Err("a name has at most 4096 bytes".to_owned()),
        text => Ok(text.to_owned()),
    }
}

fn nqn(text: &str) -> Result<String, String> {
    let is_name = text.starts_with("nqn.") && text.len() <= 223 && text != nvme_tcp::DISCOVERY_NQN;
    if is_name {
        Ok(text.to_owned())
    } else {
        Err("a qualified name begins with nqn., has at most 223 bytes, and is not the discovery name"
            .to_owned())
    }
}

impl From<ServeError> for Failure {
    fn from(error: ServeError) -> Self {
        Failure::judged(error.is_bad_request(), &error)
    }
}

pub(crate) fn serve(args: &ServeArgs) -> Result<(), Failure> {
    let watch = Stopwatch::start();
    let experiment = guest::experiment("strobe serve", &args.drive, &args.sets, args.seed)?;
    let inputs: Vec<_> = [Path::new(&args.drive)].into_iter().chain(args.image.as_deref()).collect();
    let json = output::json_output(&args.json, &inputs)?;
    let hidden = tempfile::Builder::new().prefix("strobe-serve-").tempdir();
    let hidden =
        hidden.map_err(|error| Failure::Run(anyhow!("cannot create a temporary folder: {error}")))?;
    let sockets = args.sockets(hidden.path())?;
    let stop = signals::listen();
    let (mut drive, recovery) = args.drive(&experiment, &stop)?;
    drive.clear_latency();
    let start = recovery.as_ref().map_or(SimTime::ZERO, |found| found.finished);
    let beginning = Beginning::of(experiment, &*drive, start, recovery.as_ref(), args.image.is_some());
    let export = Export {
        name: args.export.clone(),
        description: format!("strobe {}: {}", env!("CARGO_PKG_VERSION"), args.drive),
        sectors: drive.sectors(),
        block_bytes: drive.geometry().unit_bytes(),
        read_only: args.read_only,
    };
    let engine = Engine::new(drive, start, args.pace);
    let control_commands = ControlCommands::new(beginning, watch, stop.clone());
    let options = nvme_tcp::Options { read_only: args.read_only, ..Default::default() };
    let subsystem = Subsystem::new(&args.nqn, options);
    let mut server =
        Server::bind(&sockets, engine, export, subsystem, control_commands, args.connections.into())?;
    let addresses = server.addresses()?;
    let uris: Vec<_> = addresses.iter().map(|address| args.uri(address)).collect();
    let prints_result = json.as_ref().is_some_and(Output::is_stdout);
    let start = |command| Client::start(command, &uris, &addresses, prints_result);
    let mut child = args.run.as_deref().map(start).transpose()?;
    if !args.quiet && child.is_none() && !prints_result {
        let metrics = server.metrics_address().map(|address| format!("http://{address}/metrics"));
        output::print(&uris.into_iter().chain(metrics).collect::<Vec<_>>().join("\n"))?;
    }
    // Serves until a stop request or the end of the command.
    let mut exit = None;
    let served = server.serve(&stop, &mut || {
        exit = exit.or_else(|| child.as_mut().and_then(|client| client.shell.try_wait().ok().flatten()));
        exit.is_some()
    });
    let is_cut_short = child.is_some() && exit.is_none();
    if is_cut_short && let Some(client) = &mut child {
        // The command still runs, but has lost its server.
        client.end();
    }
    let result = server.result();
    drop(server);
    args.tell(&result, json.as_ref())?;
    served?;
    let Some(exit) = exit else {
        // Without a command, a signal is the normal end.
        let is_failure = is_cut_short && stop.is_raised();
        return if is_failure { Err(Failure::Run(anyhow!("--run: interrupted"))) } else { Ok(()) };
    };
    match exit.code().unwrap_or_else(|| 128 + exit.signal().unwrap_or(0)) {
        0 => Ok(()),
        code => Err(Failure::Command(u8::try_from(code).unwrap_or(1))),
    }
}

impl ServeArgs {
    /// `hidden` is the folder of the private socket of --run.
    fn sockets(&self, hidden: &Path) -> Result<Sockets, Failure> {
        let is_elsewhere = self.port.or(self.nvme).is_some() || self.vhost.is_some();
        let socket = match (&self.socket, &self.run) {
            (Some(path), _) => Some(path.clone()),
            (None, _) if is_elsewhere => None,
            (None, Some(_)) => Some(hidden.join("nbd.sock")),
            (None, None) => Some("strobe.sock".into()),
        };
        let of_clients = socket.as_deref().or(self.vhost.as_deref());
        let control = self.control.clone().or_else(|| of_clients.map(super::control::socket_of));
        let vhost = self.vhost.clone().map(|path| (Address::Unix(path), Protocol::VhostUser));
        let nbd = socket.map(Address::Unix).into_iter().chain(self.port.map(Address::Tcp));
        let nvme = self.nvme.map(|address| (Address::Tcp(address), Protocol::NvmeTcp));
        let addresses = nbd.map(|address| (address, Protocol::Nbd)).chain(nvme).chain(vhost).collect();
        let tls = self.tls_cert.as_deref().zip(self.tls_key.as_deref());
        let tls = tls
            .map(|(certificate, key)| Tls::load(certificate, key, self.tls_clients.as_deref()))
            .transpose()?;
        Ok(Sockets { addresses, control, metrics: self.metrics, tls })
    }

    /// An NBD URI, an nvme-cli command, or a QEMU command.
    fn uri(&self, address: &(Address, Protocol)) -> String {
        match address {
            (Address::Tcp(tcp), Protocol::NvmeTcp) => {
                format!("nvme connect -t tcp -a {} -s {} -n {}", tcp.ip(), tcp.port(), self.nqn)
            }
            (Address::Unix(path), Protocol::VhostUser) => format!(
                "qemu-system-x86_64 -m 1G -object memory-backend-memfd,id=memory,size=1G,share=on -machine memory-backend=memory \
                 -chardev socket,id=strobe,path={},reconnect=1 -device vhost-user-blk-pci,chardev=strobe",
                path.display()
            ),
            (address, _) => address.uri(&self.export, self.tls_cert.is_some()),
        }
    }

    /// Returns the drive, and the recovery if the image existed.
    fn drive(
        &self,
        experiment: &Experiment,
        stop: &StopFlag,
    ) -> Result<(Box<dyn Simulated>, Option<Recovery>), Failure> {
        runner::check_empty_memory(experiment, self.image.is_some(), 0)?;
        let (drive, seed) = (&experiment.drive, experiment.seed);
        if let Some(overwrites) = self.age {
            let drive = strobe_ssd::build_aged(drive, seed, Ageing { overwrites }, stop, &mut |_, _| ());
            return Ok((drive.map_err(|error| Failure::Run(anyhow!("{error}")))?, None));
        }
        match &self.image {
            Some(path) => Ok(strobe_ssd::build_on_image(drive, true, seed, path).map_err(RunError::from)?),
            None => Ok((strobe_ssd::build(drive, true, seed).map_err(RunError::from)?, None)),
        }
    }

    fn tell(&self, result: &ServeResult, json: Option<&Output>) -> Result<(), Failure> {
        if !self.quiet && !json.is_some_and(Output::is_stdout) {
            // With --run, standard output belongs to the command.
            let text = report::serve_brief(result, Style::of_stdout());
            if self.run.is_some() { output::note(&text) } else { output::print(&text)? }
        }
        output::json(result, json)
    }
}

struct Client {
    shell: Child,
    has_group: bool,
}

impl Client {
    /// With `prints_result` the command's output goes to standard error: standard output is for the result.
    fn start(
        command: &str,
        uris: &[String],
        addresses: &[(Address, Protocol)],
        prints_result: bool,
    ) -> Result<Self, Failure> {
        let mut shell = Command::new("sh");
        shell.args(["-c", command]);
        for (uri, address) in uris.iter().zip(addresses).rev() {
            match address {
                (Address::Unix(path), Protocol::VhostUser) => shell.env("vhost", path),
                (Address::Unix(path), _) => shell.env("uri", uri).env("unixsocket", path),
                (Address::Tcp(tcp), Protocol::NvmeTcp) => shell.env("nvme_port", tcp.port().to_string()),
                (Address::Tcp(_), _) => shell.env("uri", uri),
            };
        }
        if prints_result {
            shell.stdout(std::io::stderr());
        }
        // In another process group than the terminal's, the shell could not read from the terminal.
        let has_group = !std::io::stdin().is_terminal();
        if has_group {
            shell.process_group(0);
        }
        let shell =
            shell.spawn().map_err(|error| Failure::Run(anyhow!("--run: cannot start a shell: {error}")))?;
        Ok(Self { shell, has_group })
    }

    /// Kills the shell, and its children if it has a process group.
    fn end(&mut self) {
        if self.has_group {
            let _ = kill_process_group(Pid::from_child(&self.shell), Signal::KILL);
        }
        let _ = self.shell.kill().and_then(|()| self.shell.wait());
    }
}
