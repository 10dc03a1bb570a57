use strobe_lab::Experiment;
use strobe_lab::machine::Stopwatch;
use strobe_serve::nbd::Export;
use strobe_serve::nvme_tcp::{NQN, Options, Subsystem};
use strobe_serve::{Beginning, ControlCommands, Engine, Pace, Server, Sockets};
use strobe_types::{SimTime, StopFlag};

/// Drive of 640 KiB, with `nand` as further keys of `[drive.nand]`. Up to 64 clients may connect.
pub(crate) fn server(nand: &str, pace: Pace, sockets: &Sockets) -> Server {
    let text = format!(
        "[drive.nand]\nblocks_per_plane = 32\npages_per_block = 8\ndata = \"bytes\"\n{nand}\n\
         [drive.ftl]\nlogical_pages = 160\n"
    );
    let experiment = Experiment::from_toml(&text).expect("an experiment");
    let drive = strobe_ssd::build(&experiment.drive, true, 1).expect("a drive");
    let export = Export {
        name: "strobe".into(),
        description: String::new(),
        sectors: drive.sectors(),
        block_bytes: 4096,
        read_only: false,
    };
    let beginning = Beginning::of(experiment, &*drive, SimTime::ZERO, None, false);
    let control_commands = ControlCommands::new(beginning, Stopwatch::start(), StopFlag::default());
    let subsystem = Subsystem::new(NQN, Options::default());
    let engine = Engine::new(drive, SimTime::ZERO, pace);
    Server::bind(sockets, engine, export, subsystem, control_commands, 64).expect("it listens")
}
