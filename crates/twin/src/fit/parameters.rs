//! What a fit may change of a drive, and how far.

use strobe_nand::PageTimes;
use strobe_ssd::{DriveConfig, TimesByPage};

/// Something of a drive that a fit may change.
#[derive(Clone, Copy, Debug)]
pub struct Parameter {
    /// Its name in tables.
    pub name: &'static str,
    /// Its unit.
    pub unit: &'static str,
    /// The least and the most it may be.
    pub range: (f64, f64),
    /// What it is in a drive.
    pub get: fn(&DriveConfig) -> f64,
    /// Makes it so.
    pub set: fn(&mut DriveConfig, f64),
}

/// The array times of a drive's page types, in ns.
fn types(times: &TimesByPage) -> Vec<f64> {
    times.get().types().iter().map(|&ns| ns as f64).collect()
}

fn mean(times: &TimesByPage) -> f64 {
    let types = types(times);
    types.iter().sum::<f64>() / types.len() as f64
}

/// The times of three page types: as they are if there are three, else all the same.
fn three(times: &TimesByPage) -> [f64; 3] {
    match types(times)[..] {
        [fast, middle, slow] => [fast, middle, slow],
        _ => [mean(times); 3],
    }
}

fn set_three(times: &mut TimesByPage, ns: [f64; 3]) {
    let ns = ns.map(|ns| ns.round() as u64);
    *times = PageTimes::by_type(&ns).map_or_else(|| ns[1].into(), Into::into);
}

/// The parameters of a fit, in the order of their search.
pub const PARAMETERS: &[Parameter] = &[
    Parameter {
        name: "array read time of middle pages",
        unit: "ns",
        range: (10_000.0, 300_000.0),
        get: |drive| three(&drive.nand.read_ns)[1],
        set: |drive, ns| {
            let [fast, middle, slow] = three(&drive.nand.read_ns);
            set_three(&mut drive.nand.read_ns, [fast / middle * ns, ns, slow / middle * ns]);
        },
    },
    Parameter {
        name: "that of fast pages, as a share of it",
        unit: "",
        range: (0.2, 0.99),
        get: |drive| {
            let [fast, middle, _] = three(&drive.nand.read_ns);
            fast / middle
        },
        set: |drive, share| {
            let [_, middle, slow] = three(&drive.nand.read_ns);
            set_three(&mut drive.nand.read_ns, [share * middle, middle, slow]);
        },
    },
    Parameter {
        name: "that of slow pages, as a multiple of it",
        unit: "",
        range: (1.01, 5.0),
        get: |drive| {
            let [_, middle, slow] = three(&drive.nand.read_ns);
            slow / middle
        },
        set: |drive, share| {
            let [fast, middle, _] = three(&drive.nand.read_ns);
            set_three(&mut drive.nand.read_ns, [fast, middle, share * middle]);
        },
    },
    Parameter {
        name: "program time",
        unit: "ns",
        range: (30_000.0, 5_000_000.0),
        get: |drive| mean(&drive.nand.program_ns),
        set: |drive, ns| drive.nand.program_ns = (ns.round() as u64).into(),
    },
    Parameter {
        name: "suspend time",
        unit: "ns",
        range: (500.0, 200_000.0),
        get: |drive| drive.nand.suspend.suspend_ns as f64,
        set: |drive, ns| drive.nand.suspend.suspend_ns = ns.round() as u64,
    },
    Parameter {
        name: "not suspended when no more is left",
        unit: "ns",
        range: (1_000.0, 2_000_000.0),
        get: |drive| drive.nand.suspend.least_left_ns as f64,
        set: |drive, ns| drive.nand.suspend.least_left_ns = ns.round() as u64,
    },
    Parameter {
        name: "patience of collection's reads",
        unit: "ns",
        range: (1_000.0, 10_000_000.0),
        get: |drive| drive.controller.schedule.background_read_ns as f64,
        set: |drive, ns| drive.controller.schedule.background_read_ns = ns.round() as u64,
    },
    Parameter {
        name: "patience of programs",
        unit: "ns",
        range: (1_000.0, 50_000_000.0),
        get: |drive| drive.controller.schedule.host_program_ns as f64,
        set: |drive, ns| {
            let ns = ns.round() as u64;
            drive.controller.schedule.host_program_ns = ns;
            drive.controller.schedule.background_program_ns = 2 * ns;
        },
    },
    Parameter {
        name: "victims of collection under way",
        unit: "",
        range: (1.0, 256.0),
        get: |drive| match drive.ftl.gc.victims {
            0 => f64::from(drive.nand.channels) * f64::from(drive.nand.dies_per_channel),
            victims => f64::from(victims),
        },
        set: |drive, victims| drive.ftl.gc.victims = victims.round() as u32,
    },
    Parameter {
        name: "write buffer",
        unit: "bytes",
        range: (65_536.0, 1_073_741_824.0),
        get: |drive| drive.controller.write_buffer_bytes as f64,
        set: |drive, bytes| drive.controller.write_buffer_bytes = bytes.round() as u64,
    },
    Parameter {
        name: "latency of a command",
        unit: "ns",
        range: (500.0, 100_000.0),
        get: |drive| drive.controller.latency_ns as f64,
        set: |drive, ns| drive.controller.latency_ns = ns.round() as u64,
    },
    Parameter {
        name: "its variation",
        unit: "ns",
        range: (50.0, 20_000.0),
        get: |drive| drive.controller.jitter_ns as f64,
        set: |drive, ns| drive.controller.jitter_ns = ns.round() as u64,
    },
];

/// The least time that a program takes beyond suspend and resume, in ns.
const LEAST_PROGRAM_NS: u64 = 1_000;

/// `drive` with the parameters of which `logarithms` are given.
pub(super) fn drive(base: &DriveConfig, logarithms: &[f64]) -> DriveConfig {
    let mut drive = base.clone();
    for (parameter, &logarithm) in PARAMETERS.iter().zip(logarithms) {
        (parameter.set)(&mut drive, libm::exp(logarithm));
    }
    // What does not go together is not looked at: the nearest that does takes its place.
    let suspend = &mut drive.nand.suspend;
    let shortest = drive.nand.program_ns.get().shortest().min(drive.nand.erase_ns);
    let longest = drive.nand.program_ns.get().longest().max(drive.nand.erase_ns);
    suspend.resume_ns = suspend.resume_ns.min(shortest / 4);
    suspend.suspend_ns =
        suspend.suspend_ns.min(shortest.saturating_sub(suspend.resume_ns + LEAST_PROGRAM_NS));
    suspend.least_left_ns = suspend.least_left_ns.min(longest.saturating_sub(1));
    drive
}

/// The logarithms of the parameters of `drive`.
pub(super) fn logarithms(drive: &DriveConfig) -> Vec<f64> {
    PARAMETERS.iter().map(|parameter| libm::log((parameter.get)(drive))).collect()
}

/// `drive` with every parameter within its range.
pub(super) fn within_ranges(base: &DriveConfig) -> DriveConfig {
    let clamped = |parameter: &Parameter| {
        let (low, high) = parameter.range;
        libm::log((parameter.get)(base).clamp(low, high))
    };
    let mut base = base.clone();
    base.nand.suspend.most = base.nand.suspend.most.max(20);
    let logarithms: Vec<f64> = PARAMETERS.iter().map(clamped).collect();
    drive(&base, &logarithms)
}

/// A value with its unit, to three digits.
pub fn shown(value: f64, unit: &str) -> String {
    match unit {
        "ns" if value >= 1e6 => format!("{:.3} ms", value / 1e6),
        "ns" => format!("{:.1} µs", value / 1e3),
        "bytes" => format!("{:.2} MB", value / 1e6),
        _ => format!("{value:.3}"),
    }
}
