//! Commands of the control socket: counters, power cuts, snapshots, ageing, read faults.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use strobe_lab::machine::Stopwatch;
use strobe_ssd::{Ageing, Simulated, build_aged};
use strobe_types::{Lba, Prng, SimTime, StopFlag};

use crate::engine::Engine;
use crate::metrics;
use crate::result::{Beginning, ServeResult, Served};

/// Maximum number of snapshots. Each holds the data that the drive has changed since, and shares the rest.
const SNAPSHOTS_MAX: usize = 8;
/// Maximum number of random units that one command makes unreadable.
const RANDOM_FAULTS_MAX: usize = 10_000;
const UNNAMED: &str = "default";

pub(crate) struct Done {
    pub(crate) answer: Value,
    pub(crate) then: Then,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Then {
    Nothing,
    /// The drive was replaced, and clients must reconnect.
    OtherDrive,
    End,
}

/// Commands of the control socket.
pub struct ControlCommands {
    beginning: Beginning,
    watch: Stopwatch,
    stop: StopFlag,
    snapshots: BTreeMap<String, (Box<dyn Simulated>, SimTime)>,
    chance: Prng,
}

impl ControlCommands {
    /// Creates the command processor. Raising `stop` cancels `age`.
    pub fn new(beginning: Beginning, watch: Stopwatch, stop: StopFlag) -> Self {
        let chance = Prng::derive(beginning.experiment().seed, "serve-faults");
        Self { beginning, watch, stop, snapshots: BTreeMap::new(), chance }
    }

    /// Returns the counters since the server started.
    pub fn result(&self, engine: &Engine, served: Served) -> ServeResult {
        self.beginning.result(engine, served, &self.watch)
    }

    pub(crate) fn metrics(&self, head: &str, engine: &Engine, served: Served) -> String {
        let mut words = head.split_whitespace();
        let (status, kind, body) = match (words.next(), words.next()) {
            (Some("GET"), Some("/metrics")) => {
                ("200 OK", "text/plain; version=0.0.4", metrics::text(&self.result(engine, served)))
            }
            _ => ("404 Not Found", "text/plain", "only GET /metrics is answered\n".to_owned()),
        };
        let length = body.len();
        format!(
            "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
        )
    }

    /// Executes `line`: a command and at most one argument. The error is the text for the client.
    pub(crate) fn carry_out(
        &mut self,
        line: &str,
        engine: &mut Engine,
        served: Served,
    ) -> Result<Done, String> {
        let mut words = line.split_whitespace();
        let (command, argument) = (words.next().unwrap_or(""), words.next());
        if words.next().is_some() {
            return Err(format!("{command} takes at most one argument"));
        }
        let stays = |answer| Ok(Done { answer, then: Then::Nothing });
        match command {
            "stats" => {
                let result = serde_json::to_value(self.result(engine, served));
                stays(result.map_err(|error| error.to_string())?)
            }
            "cut" | "snapshot" | "rewind" | "age" if self.beginning.is_on_image() => Err(format!(
                "{command} needs a drive in memory, but this one is on an image: {}",
                instead_of(command)
            )),
            "cut" => self.cut(engine),
            "snapshot" => {
                let name = argument.unwrap_or(UNNAMED);
                // A snapshot with an existing name replaces the old one and needs no free slot.
                if self.snapshots.len() >= SNAPSHOTS_MAX && !self.snapshots.contains_key(name) {
                    return Err(format!(
                        "all {SNAPSHOTS_MAX} snapshots are in use; name one of them to replace it"
                    ));
                }
                self.snapshots.insert(name.to_owned(), (engine.drive().freeze(), engine.now()));
                stays(json!({ "snapshot": name, "at_ns": engine.now().as_ns() }))
            }
            "stop" => Ok(Done { answer: json!({ "stops": true }), then: Then::End }),
            "rewind" => self.rewind(argument.unwrap_or(UNNAMED), engine),
            "age" => self.age(argument, engine),
            "faults" => stays(self.faults(argument, engine)?),
            _ => Err(format!(
                "unknown command {command:?}; allowed: stats, cut, snapshot, rewind, age, faults and stop"
            )),
        }
    }

    fn cut(&mut self, engine: &mut Engine) -> Result<Done, String> {
        // Virtual time continues at the end of the recovery, when the drive accepts commands again.
        let cut = engine.cut();
        let operation = cut.operation;
        let (drive, found) = cut.drive.restart(engine.now()).map_err(|error| error.to_string())?;
        let duration_ns = found.finished.since(engine.now());
        engine.replace(drive, found.finished);
        Ok(Done {
            answer: json!({ "operation": operation, "recovery_ns": duration_ns }),
            then: Then::OtherDrive,
        })
    }

    fn rewind(&mut self, name: &str, engine: &mut Engine) -> Result<Done, String> {
        let Some((drive, at)) = self.snapshots.get(name) else {
            let names: Vec<_> = self.snapshots.keys().map(String::as_str).collect();
            let others = match &names[..] {
                [] => "take one with `snapshot`".to_owned(),
                names => format!("existing snapshots: {}", names.join(", ")),
            };
            return Err(format!("there is no snapshot {name:?}; {others}"));
        };
        let (mut drive, mut at) = (drive.freeze(), *at);
        // The snapshot includes in-flight commands whose clients are gone: complete them and drop their
        // answers.
        let mut done = Vec::new();
        while drive.outstanding() > 0
            && let Some(next) = drive.next_event()
        {
            at = at.max(next);
            drive.advance(at, &mut done);
        }
        engine.replace(drive, at);
        Ok(Done { answer: json!({ "rewound": name, "at_ns": at.as_ns() }), then: Then::OtherDrive })
    }

    fn faults(&mut self, argument: Option<&str>, engine: &mut Engine) -> Result<Value, String> {
        let sectors = engine.drive().sectors();
        let Some(faults) = argument.and_then(|text| Faults::parse(text, sectors)) else {
            return Err(format!(
                "faults takes a number of units from 1 to {RANDOM_FAULTS_MAX}, or a range of sectors FIRST-LAST below {sectors}"
            ));
        };
        let unit_sectors = u64::from(engine.drive().geometry().sectors_per_unit());
        let drive = engine.drive_mut();
        match faults {
            Faults::Sectors { first, last } => {
                let units = first / unit_sectors..=last / unit_sectors;
                let lost = units.filter(|unit| drive.fail_reads(Lba::new(unit * unit_sectors))).count();
                Ok(json!({ "unreadable_units": lost }))
            }
            Faults::Random(count) => {
                let mut lbas = random_units(drive, count, unit_sectors, &mut self.chance);
                lbas.retain(|&lba| drive.fail_reads(Lba::new(lba)));
                lbas.sort_unstable();
                Ok(json!({ "unreadable_units": lbas.len(), "lbas": lbas }))
            }
        }
    }

    fn age(&mut self, argument: Option<&str>, engine: &mut Engine) -> Result<Done, String> {
        let overwrites = argument.unwrap_or("2").parse().ok().filter(|times| (0.0..=100.0).contains(times));
        let Some(overwrites) = overwrites else {
            return Err("age takes a number of capacities from 0 to 100".to_owned());
        };
        let experiment = self.beginning.experiment();
        // Age a new drive of the same configuration. The served drive is replaced, not aged.
        let drive =
            build_aged(&experiment.drive, experiment.seed, Ageing { overwrites }, &self.stop, &mut |_, _| ());
        engine.replace(drive.map_err(|error| error.to_string())?, SimTime::ZERO);
        Ok(Done { answer: json!({ "aged": overwrites }), then: Then::OtherDrive })
    }
}

/// Returns the first LBA of `count` random mapped units, or of all mapped units if there are fewer.
fn random_units(drive: &dyn Simulated, count: usize, unit_sectors: u64, chance: &mut Prng) -> Vec<u64> {
    let units = (0..drive.sectors() / unit_sectors).map(|unit| unit * unit_sectors);
    let mut chosen = Vec::new();
    // Reservoir sampling (Vitter 1985, algorithm R): each mapped unit has the same probability.
    for (seen, lba) in (1..).zip(units.filter(|&lba| drive.is_allocated(Lba::new(lba)))) {
        if chosen.len() < count {
            chosen.push(lba);
        } else if let Some(place) = chosen.get_mut(chance.below_u64(seen) as usize) {
            *place = lba;
        }
    }
    chosen
}

enum Faults {
    Random(usize),
    /// Inclusive range of LBAs.
    Sectors {
        first: u64,
        last: u64,
    },
}

impl Faults {
    fn parse(text: &str, sectors: u64) -> Option<Self> {
        let Some((first, last)) = text.split_once('-') else {
            let count = text.parse().ok()?;
            return (1..=RANDOM_FAULTS_MAX).contains(&count).then_some(Self::Random(count));
        };
        let (first, last) = (first.parse().ok()?, last.parse().ok()?);
        (first <= last && last < sectors).then_some(Self::Sectors { first, last })
    }
}

fn instead_of(command: &str) -> &'static str {
    match command {
        "cut" => {
            "end the server with `kill -9`, which is a power cut, and start it again with the same --image"
        }
        "snapshot" => "end the server, and copy the file",
        "rewind" => "end the server, put a copy of the file in its place, and start it again",
        _ => "start a server without --image, or let a client write",
    }
}
