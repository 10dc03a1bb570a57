//! Multi-range TRIM (Son, Lee, Kim and Kim 2015), on the drive alone and under ext4.

mod claims;
mod device;
#[cfg(target_os = "linux")]
mod ext4;
#[cfg(target_os = "linux")]
mod ext4_figures;
mod figures;
#[cfg(target_os = "linux")]
mod removal;

use super::pool::Bench;
use super::{Made, Options, Paper, PaperError, Scale};
use device::{Measured, Trial};

pub(crate) const CLAIMS: &str = include_str!("claims.toml");

pub(super) const PAPER: Paper = Paper {
    name: "trim",
    title: "An Analysis on the Performance of TRIM Commands on SSDs and its Application to the Ext4 File System",
    authors: "Hyobong Son, Youngjae Lee, Yongserk Kim, Jin-Soo Kim, KIISE Transactions on Computing Practices 21(1), 52-57, 2015, \
              doi:10.5626/KTCP.2015.21.1.52 (in Korean)",
    reproduces: "figures 1 to 3 and table 2: time per TRIM command by size, place and alignment of its range, \
                 and by the number of ranges; figures 6 and 7: ext4's gain on a real kernel, and its sensitivity to the \
                 times of an unlink and of a TRIM",
    takes: "a second with --quick, two seconds in full; with a kernel for guests (make kernel) also figures 6 and 7, 7 \
            minutes with --quick, about an hour in full",
    make,
};

#[derive(Clone, Copy, Debug, PartialEq)]
struct Model {
    figure: &'static str,
    label: &'static str,
    preset: &'static str,
    /// True if ranges that continue the previous one are cheaper than others.
    likes_continuous: bool,
    /// Time per command in the text, in µs, and its band.
    level: Option<(f64, [f64; 2])>,
}

const MODELS: [Model; 3] = [
    Model {
        figure: "1",
        label: "Samsung 840",
        preset: "samsung-840-like",
        likes_continuous: false,
        level: Some((1000.0, [1000.0, 1500.0])),
    },
    Model {
        figure: "2",
        label: "Intel 320",
        preset: "intel-320-like",
        likes_continuous: true,
        level: Some((200.0, [150.0, 250.0])),
    },
    Model { figure: "jasmine", label: JASMINE, preset: "jasmine-4g", likes_continuous: true, level: None },
];

/// The board; the paper omits its figure as similar to the Intel drive's.
const JASMINE: &str = "Jasmine";

const SIZES_KIB: [u64; 6] = [4, 8, 16, 32, 64, 128];

/// Ranges per command.
const RANGES: [u32; 4] = [1, 16, 32, 64];

/// Size of the ranges in multi-range commands, in KiB. The number is illegible; it follows from 2
/// GB in 131,072 ranges.
const RANGE_KIB: u64 = 16;

#[derive(Clone, Copy, Debug)]
struct Environment {
    region_bytes: u64,
    seed: u64,
}

impl Environment {
    fn new(options: &Options) -> Self {
        let region_bytes = match options.scale {
            Scale::Full => 2 << 30,
            Scale::Quick => 256 << 20,
            Scale::Tiny => 8 << 20,
        };
        Self { region_bytes, seed: options.seed }
    }
}

fn make(options: &Options, bench: &Bench<'_>) -> Result<Made, PaperError> {
    let environment = Environment::new(options);
    let trials = Trial::all(options, &environment)?;
    let taken = bench.points("trim", &trials, |trial| device::measure(trial, &environment, bench.watch))?;
    let measured = Measured::of(&trials, &taken);
    let full = options.scale == Scale::Full;
    let made = Made {
        notes: notes(&environment, options.scale),
        claims: claims::all(&measured, full),
        figures: figures::all(&measured),
    };
    #[cfg(target_os = "linux")]
    let made = {
        let (results, notes) = ext4::measured(options, bench)?;
        let (claims, figures) = (ext4_figures::claims(&results), ext4_figures::figures(&results));
        made.and(Made { notes, claims, figures })
    };
    Ok(made)
}

fn notes(environment: &Environment, scale: Scale) -> Vec<String> {
    let mib = environment.region_bytes >> 20;
    let mut notes = vec![
        format!(
            "{mib} MiB are written, then trimmed by sequential commands, each after the completion of the previous \
             one; every trial starts from the same frozen drive"
        ),
        "the drives are presets modelled on the paper's, with TRIM costs chosen to agree with its text (strobe show \
         preset samsung-840-like, and so on). Agreement shows that the model can express the measurements, not that \
         it predicts them. The times of figures 1 and 2 and, for Jasmine, the gain at 64 ranges are fitted; the gains \
         at 16 and 32 ranges follow"
            .to_owned(),
        "the bars of the paper's figures are not legible in our copy: its text is compared. Numbers that the presets \
         were fitted to are no evidence: verdict \"by construction\""
            .to_owned(),
    ];
    match scale {
        Scale::Full => {}
        Scale::Quick => notes.push(format!(
            "QUICK: {mib} MiB instead of 2048; times per command are the same, totals an eighth"
        )),
        Scale::Tiny => notes.push("TINY: these numbers are meaningless".to_owned()),
    }
    notes
}
