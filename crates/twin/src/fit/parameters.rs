//! Parameters of a drive that a fit may change, and their ranges.

use strobe_nand::PageTimes;
use strobe_ssd::DriveConfig;

use crate::measurements::Measurement;

/// A drive parameter that a fit may change.
#[derive(Clone, Copy, Debug)]
pub struct Parameter {
    /// Name in tables.
    pub name: &'static str,
    /// Configuration key that it sets. A second key may follow it.
    pub key: &'static str,
    /// Unit of its value.
    pub unit: &'static str,
    /// Smallest and largest value.
    pub range: (f64, f64),
    /// True if it is integer-valued: finite differences use steps of at least 1.
    pub whole: bool,
    /// Reads its value from a drive.
    pub get: fn(&DriveConfig) -> f64,
    /// Sets its value in a drive.
    pub set: fn(&mut DriveConfig, f64),
}

fn types(times: &PageTimes) -> Vec<f64> {
    times.types().iter().map(|&ns| ns as f64).collect()
}

fn mean(times: &PageTimes) -> f64 {
    let types = types(times);
    types.iter().sum::<f64>() / types.len() as f64
}

/// Read times of fast, middle and slow pages, and the spread over the layers of the stack as a share.
///
/// TLC cells have three page types. If layers differ as well, there are six times: each type on a fast and on a
/// slow layer.
#[derive(Clone, Copy)]
struct Reads {
    types: [f64; 3],
    spread: f64,
}

const SPREAD_MIN: f64 = 0.01;

impl Reads {
    fn of(drive: &DriveConfig) -> Self {
        // Other numbers of times than three and six are replaced by their mean.
        let mean = mean(&drive.nand.read_ns);
        match types(&drive.nand.read_ns)[..] {
            [fast, middle, slow] => Self { types: [fast, middle, slow], spread: SPREAD_MIN },
            [fast, middle, slow, fast_slower, middle_slower, slow_slower] => {
                let types = [fast + fast_slower, middle + middle_slower, slow + slow_slower];
                let spread = (fast_slower - fast) / types[0];
                Self { types: types.map(|sum| sum / 2.0), spread: spread.max(SPREAD_MIN) }
            }
            _ => Self { types: [mean; 3], spread: SPREAD_MIN },
        }
    }

    fn set(self, drive: &mut DriveConfig) {
        let on = |layer: f64| self.types.map(|ns| (ns * layer).round() as u64);
        let alike = self.spread <= SPREAD_MIN;
        let times =
            if alike { on(1.0).to_vec() } else { [on(1.0 - self.spread), on(1.0 + self.spread)].concat() };
        // `by_type` accepts three or six times.
        if let Some(times) = PageTimes::by_type(&times) {
            drive.nand.read_ns = times;
        }
    }
}

/// Parameters of a fit, in search order.
pub const PARAMETERS: &[Parameter] = &[
    Parameter {
        name: "array read time, middle pages",
        key: "nand.read_ns",
        unit: "ns",
        range: (10_000.0, 300_000.0),
        whole: false,
        get: |drive| Reads::of(drive).types[1],
        set: |drive, ns| {
            let reads = Reads::of(drive);
            let types = reads.types.map(|time| time / reads.types[1] * ns);
            Reads { types, ..reads }.set(drive);
        },
    },
    Parameter {
        name: "array read time, fast pages (share of middle)",
        key: "nand.read_ns",
        unit: "",
        range: (0.2, 0.99),
        whole: false,
        get: |drive| Reads::of(drive).types[0] / Reads::of(drive).types[1],
        set: |drive, share| {
            let mut reads = Reads::of(drive);
            reads.types[0] = share * reads.types[1];
            reads.set(drive);
        },
    },
    Parameter {
        name: "array read time, slow pages (multiple of middle)",
        key: "nand.read_ns",
        unit: "",
        range: (1.01, 5.0),
        whole: false,
        get: |drive| Reads::of(drive).types[2] / Reads::of(drive).types[1],
        set: |drive, share| {
            let mut reads = Reads::of(drive);
            reads.types[2] = share * reads.types[1];
            reads.set(drive);
        },
    },
    Parameter {
        name: "array read time, spread over layers (share)",
        key: "nand.read_ns",
        unit: "",
        range: (SPREAD_MIN, 0.5),
        whole: false,
        get: |drive| Reads::of(drive).spread,
        set: |drive, spread| Reads { spread, ..Reads::of(drive) }.set(drive),
    },
    Parameter {
        name: "program time",
        key: "nand.program_ns",
        unit: "ns",
        range: (30_000.0, 5_000_000.0),
        whole: false,
        get: |drive| mean(&drive.nand.program_ns),
        set: |drive, ns| drive.nand.program_ns = (ns.round() as u64).into(),
    },
    Parameter {
        name: "suspend time",
        key: "nand.suspend.suspend_ns",
        unit: "ns",
        range: (500.0, 200_000.0),
        whole: false,
        get: |drive| drive.nand.suspend.suspend_ns as f64,
        set: |drive, ns| drive.nand.suspend.suspend_ns = ns.round() as u64,
    },
    Parameter {
        name: "least remaining time for a suspend",
        key: "nand.suspend.least_left_ns",
        unit: "ns",
        range: (1_000.0, 2_000_000.0),
        whole: false,
        get: |drive| drive.nand.suspend.least_left_ns as f64,
        set: |drive, ns| drive.nand.suspend.least_left_ns = ns.round() as u64,
    },
    Parameter {
        name: "deadline of GC reads",
        key: "controller.schedule.background_read_ns",
        unit: "ns",
        range: (1_000.0, 10_000_000.0),
        whole: false,
        get: |drive| drive.controller.schedule.background_read_ns as f64,
        set: |drive, ns| drive.controller.schedule.background_read_ns = ns.round() as u64,
    },
    Parameter {
        name: "deadline of programs",
        key: "controller.schedule.host_program_ns",
        unit: "ns",
        range: (1_000.0, 50_000_000.0),
        whole: false,
        get: |drive| drive.controller.schedule.host_program_ns as f64,
        set: |drive, ns| {
            let ns = ns.round() as u64;
            drive.controller.schedule.host_program_ns = ns;
            drive.controller.schedule.background_program_ns = 2 * ns;
        },
    },
    Parameter {
        name: "concurrent GC victims",
        key: "ftl.gc.victims",
        unit: "",
        range: (1.0, 256.0),
        whole: true,
        get: |drive| match drive.ftl.gc.victims {
            0 => f64::from(drive.nand.channels) * f64::from(drive.nand.dies_per_channel),
            victims => f64::from(victims),
        },
        set: |drive, victims| drive.ftl.gc.victims = victims.round() as u32,
    },
    Parameter {
        name: "pages per GC step",
        key: "ftl.gc.read_pages",
        unit: "",
        range: (1.0, 32.0),
        whole: true,
        get: |drive| f64::from(strobe_ssd::collection_read_pages(drive)),
        set: |drive, pages| drive.ftl.gc.read_pages = pages.round() as u32,
    },
    Parameter {
        name: "write buffer",
        key: "controller.write_buffer_bytes",
        unit: "bytes",
        range: (65_536.0, 1_073_741_824.0),
        whole: false,
        get: |drive| drive.controller.write_buffer_bytes as f64,
        set: |drive, bytes| drive.controller.write_buffer_bytes = bytes.round() as u64,
    },
    Parameter {
        name: "command latency",
        key: "controller.latency_ns",
        unit: "ns",
        range: (500.0, 100_000.0),
        whole: false,
        get: |drive| drive.controller.latency_ns as f64,
        set: |drive, ns| drive.controller.latency_ns = ns.round() as u64,
    },
    Parameter {
        name: "command jitter",
        key: "controller.jitter_ns",
        unit: "ns",
        range: (50.0, 20_000.0),
        whole: false,
        get: |drive| drive.controller.jitter_ns as f64,
        set: |drive, ns| drive.controller.jitter_ns = ns.round() as u64,
    },
    Parameter {
        name: "extra write jitter",
        key: "controller.write_jitter_ns",
        unit: "ns",
        range: (50.0, 100_000.0),
        whole: false,
        get: |drive| drive.controller.write_jitter_ns.max(50) as f64,
        set: |drive, ns| drive.controller.write_jitter_ns = ns.round() as u64,
    },
    Parameter {
        name: "write throttle interval",
        key: "controller.write_throttle_ns",
        unit: "ns",
        // Lower limit: two million writes per second.
        range: (500.0, 10_000_000.0),
        whole: false,
        get: |drive| drive.controller.write_throttle_ns.max(500) as f64,
        set: |drive, ns| drive.controller.write_throttle_ns = ns.round() as u64,
    },
    Parameter {
        name: "write burst size",
        key: "controller.write_throttle_burst",
        unit: "",
        range: (1.0, 256.0),
        whole: true,
        get: |drive| drive.controller.write_throttle_burst.max(1) as f64,
        set: |drive, writes| drive.controller.write_throttle_burst = writes.round() as u64,
    },
];

const LEAST_PROGRAM_NS: u64 = 1_000;

fn is_pinned(keys: &[String], key: &str) -> bool {
    keys.iter().any(|pinned| pinned == key)
}

pub(super) fn kept(keys: &[String]) -> Vec<bool> {
    // The fit sets `background_program_ns` to twice `host_program_ns`: keeping one keeps both.
    let of = |key: &str| match key {
        "controller.schedule.background_program_ns" => "controller.schedule.host_program_ns".to_owned(),
        key => key.to_owned(),
    };
    PARAMETERS.iter().map(|parameter| keys.iter().any(|key| of(key) == parameter.key)).collect()
}

pub(super) fn drive(base: &DriveConfig, logarithms: &[f64], pinned: &[String]) -> DriveConfig {
    let mut drive = base.clone();
    let kept = kept(pinned);
    for ((parameter, &logarithm), _) in PARAMETERS.iter().zip(logarithms).zip(kept).filter(|(_, kept)| !kept)
    {
        (parameter.set)(&mut drive, libm::exp(logarithm));
    }
    // Clamp inconsistent suspend times to the nearest valid ones. Keys in `pinned` keep their values even so.
    let as_pinned = drive.nand.suspend;
    let if_pinned = |key: &str, value: u64| if is_pinned(pinned, key) { value } else { 0 };
    let shortest = if_pinned("nand.suspend.suspend_ns", as_pinned.suspend_ns)
        + if_pinned("nand.suspend.resume_ns", as_pinned.resume_ns)
        + LEAST_PROGRAM_NS;
    if drive.nand.program_ns.shortest() < shortest && !is_pinned(pinned, "nand.program_ns") {
        drive.nand.program_ns = shortest.into();
    }
    let suspend = &mut drive.nand.suspend;
    let shortest = drive.nand.program_ns.shortest().min(drive.nand.erase_ns);
    let longest = drive.nand.program_ns.longest().max(drive.nand.erase_ns);
    suspend.resume_ns = suspend.resume_ns.min(shortest / 4);
    suspend.suspend_ns =
        suspend.suspend_ns.min(shortest.saturating_sub(suspend.resume_ns + LEAST_PROGRAM_NS));
    suspend.least_left_ns = suspend.least_left_ns.min(longest.saturating_sub(1));
    for (key, of, value) in [
        ("nand.suspend.resume_ns", &mut suspend.resume_ns, as_pinned.resume_ns),
        ("nand.suspend.suspend_ns", &mut suspend.suspend_ns, as_pinned.suspend_ns),
        ("nand.suspend.least_left_ns", &mut suspend.least_left_ns, as_pinned.least_left_ns),
    ] {
        if is_pinned(pinned, key) {
            *of = value;
        }
    }
    drive
}

pub(super) fn logarithms(drive: &DriveConfig) -> Vec<f64> {
    let within = |parameter: &Parameter| {
        let (low, high) = parameter.range;
        libm::log((parameter.get)(drive).clamp(low, high))
    };
    PARAMETERS.iter().map(within).collect()
}

pub(super) fn within_ranges(base: &DriveConfig, pinned: &[String]) -> DriveConfig {
    let mut base = base.clone();
    // Without suspends the parameters of suspend would have no effect.
    if !is_pinned(pinned, "nand.suspend.most") {
        base.nand.suspend.most = base.nand.suspend.most.max(20);
    }
    let logarithms = logarithms(&base);
    drive(&base, &logarithms, pinned)
}

pub(super) fn begin_throttled(drive: &mut DriveConfig, rows: &[Measurement]) {
    let writes_s = rows.iter().filter_map(|row| {
        let writes_s = row.seen.completed_s? - row.load.offered.map_or(0.0, |offered| offered.reads_s as f64);
        (writes_s > 0.0).then_some(writes_s)
    });
    // The search starts at the highest write rate that the real drive completed.
    if let Some(writes_s) = writes_s.reduce(f64::max) {
        drive.controller.write_throttle_ns = (1e9 / writes_s).round() as u64;
        drive.controller.write_throttle_burst = drive.controller.write_throttle_burst.max(4);
    }
}

pub(super) fn difference_point(parameter: usize, at: f64, difference: f64) -> f64 {
    let whole = libm::exp(at).round();
    // A step that rounds to the same integer would give a derivative of 0: step to the next integer.
    let is_same = PARAMETERS[parameter].whole && libm::exp(at + difference).round() == whole;
    if !is_same {
        at + difference
    } else if difference > 0.0 {
        libm::log(whole + 1.0)
    } else {
        libm::log((whole - 1.0).max(1.0))
    }
}

/// Formats a value with its unit.
pub fn shown(value: f64, unit: &str) -> String {
    match unit {
        "ns" if value >= 1e6 => format!("{:.3} ms", value / 1e6),
        "ns" => format!("{:.1} µs", value / 1e3),
        "bytes" => format!("{:.2} MB", value / 1e6),
        _ => format!("{value:.3}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_set_is_there() {
        let mut drive = DriveConfig::preset("pm9a3-like").expect("a preset");
        for (at, parameter) in PARAMETERS.iter().enumerate() {
            let (low, high) = parameter.range;
            let value = libm::sqrt(low.max(0.5) * high);
            let value = if parameter.whole { value.round() } else { value };
            let before: Vec<f64> = PARAMETERS.iter().map(|other| (other.get)(&drive)).collect();
            (parameter.set)(&mut drive, value);
            let near = |a: f64, b: f64| (a / b - 1.0).abs() < 1e-3;
            assert!(near((parameter.get)(&drive), value), "{}: {}", parameter.name, (parameter.get)(&drive));
            for (other, before) in
                PARAMETERS.iter().zip(before).filter(|(other, _)| other.name != parameter.name)
            {
                let after = (other.get)(&drive);
                assert!(
                    near(after, before),
                    "{at}: {} changes {}: {before} {after}",
                    parameter.name,
                    other.name
                );
            }
        }
    }

    #[test]
    fn keys_that_are_told_are_kept() {
        let pinned = ["controller.schedule.background_program_ns", "nand.read_ns", "nand.channels"];
        let kept = kept(&pinned.map(String::from));
        let names =
            PARAMETERS.iter().zip(kept).filter(|(_, kept)| *kept).map(|(parameter, _)| parameter.name);
        assert_eq!(names.filter(|name| *name == "deadline of programs").count(), 1);
        let drive = DriveConfig::preset("pm9a3-like").expect("a preset");
        let moved: Vec<f64> = logarithms(&drive).iter().map(|at| at + 0.3).collect();
        let other = super::drive(&drive, &moved, &pinned.map(String::from));
        assert_eq!(other.nand.read_ns, drive.nand.read_ns);
        assert_eq!(
            other.controller.schedule.background_program_ns,
            drive.controller.schedule.background_program_ns
        );
        assert_ne!(other.nand.program_ns, drive.nand.program_ns);
    }

    #[test]
    fn what_is_told_of_suspending_is_kept_whatever_comes_of_it() {
        let mut pinned = DriveConfig::preset("pm9a3-like").expect("a preset");
        let suspend = &mut pinned.nand.suspend;
        (suspend.most, suspend.suspend_ns, suspend.resume_ns, suspend.least_left_ns) =
            (0, 150_000, 400_000, 99_000_000);
        let keys = ["most", "suspend_ns", "resume_ns", "least_left_ns"];
        let keys = keys.map(|key| format!("nand.suspend.{key}"));
        let free = within_ranges(&pinned, &[]).nand.suspend;
        assert!(free.most == 20 && free.resume_ns < 400_000 && free.least_left_ns < 99_000_000);
        let at: Vec<f64> = logarithms(&pinned).iter().map(|at| at - 1.0).collect();
        for found in [within_ranges(&pinned, &keys), super::drive(&pinned, &at, &keys)] {
            assert_eq!(found.nand.suspend, pinned.nand.suspend);
            assert!(found.nand.program_ns.shortest() > 550_000, "it can be suspended");
        }
    }

    #[test]
    fn of_things_one_more_or_less_makes_a_difference() {
        let number = |name: &str| {
            PARAMETERS.iter().position(|parameter| parameter.name.contains(name)).expect("there")
        };
        let (pages, time) = (number("pages per GC step"), number("program time"));
        let look = |at: f64, difference: f64| libm::exp(difference_point(pages, libm::log(at), difference));
        assert!((look(3.0, 0.12) - 4.0).abs() < 1e-9 && (look(3.0, -0.12) - 2.0).abs() < 1e-9);
        assert!((look(1.0, -0.12) - 1.0).abs() < 1e-9, "1 is the least");
        assert!((look(30.0, 0.12) - 30.0 * libm::exp(0.12)).abs() < 1e-9, "the step is large enough");
        assert_eq!(difference_point(time, 13.0, 0.12), 13.12);
    }
}
