//! Ready-made drives.
//!
//! To add a preset, write `NAME.toml` next to this file, with the source of every number in comments, and add
//! a line to [`PRESETS`].

mod overlay;

pub use overlay::overlay;

use toml::{Table, Value};

use crate::schema::{KeyError, check_name};

/// A named drive.
#[derive(Clone, Copy, Debug)]
pub struct Preset {
    /// Name used in `drive.preset` and `--drive`.
    pub name: &'static str,
    /// One-line description.
    pub summary: &'static str,
    /// The preset's `[drive]` table as TOML text, comments included.
    pub toml: &'static str,
}

macro_rules! preset {
    ($name:literal, $summary:literal) => {
        Preset { name: $name, summary: $summary, toml: include_str!(concat!($name, ".toml")) }
    };
}

/// Every preset.
pub const PRESETS: &[Preset] = &[
    preset!("generic-8g", "8 GiB raw, 28 % over-provisioned, one die: the cell used for comparisons"),
    preset!("jasmine-4g", "OpenSSD Jasmine (Indilinx Barefoot), 4 GB, of the logical-copy and TRIM papers"),
    preset!(
        "jasmine-shipped",
        "the same board with the banks, issue order and map pages of its shipped firmware: logical copy"
    ),
    preset!(
        "intel-320-like",
        "in the manner of an Intel 320 (25 nm MLC, SATA 2) of the TRIM paper, scaled to 4 GB"
    ),
    preset!(
        "samsung-840-like",
        "in the manner of a Samsung 840 (TLC, SATA 3) of the TRIM paper, scaled to 4 GB"
    ),
    preset!("ez-x5-32m", "Falinux EZ-X5 board, 32 MB small-page SLC, of the NVRAM paper"),
    preset!("disksim-ssd", "the DiskSim SSD of the CAPi paper: 1024 + 84 blocks of 256 × 8 KiB"),
    preset!(
        "p5520-like",
        "in the manner of a Solidigm D7-P5520, 1.92 TB, fitted to what was measured on one"
    ),
    preset!(
        "7450-max-like",
        "in the manner of a Micron 7450 MAX, 800 GB, fitted to what was measured on one"
    ),
    preset!("pm9a3-like", "in the manner of a Samsung PM9A3, 960 GB, fitted to what was measured on one"),
    preset!("tlc-nvme-1t", "a modern 1 TB TLC NVMe drive: 8 channels × 4 dies × 4 planes"),
    preset!("tlc-client-1t", "a client's 1 TB TLC drive with an SLC cache of 2 GB, and up to 100 GB more"),
    preset!("qlc-client-2t", "a client's 2 TB QLC drive with an SLC cache of 6 GB, and up to 200 GB more"),
];

/// The preset called `name`.
pub fn find(name: &str) -> Option<&'static Preset> {
    PRESETS.iter().find(|preset| preset.name == name)
}

/// Preset of a drive without the key `preset`.
pub const DEFAULT: &str = "generic-8g";

impl Preset {
    /// The preset's `[drive]` table, with the key `preset`.
    pub fn table(&self) -> Table {
        let mut table: Table = self.toml.parse().expect("presets are TOML");
        table.insert("preset".to_owned(), self.name.into());
        table
    }
}

/// Overlays `given` on the preset that its key `preset` names, or on [`DEFAULT`].
pub fn complete(given: Table) -> Result<Table, KeyError> {
    let name = match given.get("preset") {
        None => DEFAULT.to_owned(),
        Some(Value::String(name)) => name.clone(),
        Some(other) => other.to_string(),
    };
    let names: Vec<&str> = PRESETS.iter().map(|preset| preset.name).collect();
    let mut table = PRESETS[check_name("drive.preset", &name, &names)?].table();
    overlay(&mut table, given)?;
    Ok(table)
}
