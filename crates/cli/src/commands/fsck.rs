//! `strobe fsck`.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use anyhow::anyhow;
use clap::Args;
use strobe_cli::report::{bytes, count, recovered};
use strobe_ftl::Inspectable as _;
use strobe_lab::machine::available_bytes;
use strobe_nand::{Damage, Payload as _, UnitBytes};
use strobe_ssd::{
    Access, Device as _, Examined, Image, ImageDrive, ImageError, ImageProblem, Inspect as _, examine,
    image_config, memory_bytes,
};
use strobe_types::{Geometry, Lpn};

use super::{Failure, output};

#[derive(Args)]
pub(crate) struct FsckArgs {
    /// Image to check; it is only read, and must not be in use
    #[arg(value_name = "IMAGE")]
    image: PathBuf,
    /// Write the disk as the host sees it to FILE, new and sparse; for a damaged image, only the readable
    /// part
    #[arg(long, value_name = "FILE")]
    extract: Option<PathBuf>,
}

const SHOWN: usize = 50;

pub(crate) fn fsck(args: &FsckArgs) -> Result<(), Failure> {
    let refuse = |problem: ImageProblem| {
        let error = anyhow!("image {}: {problem}", args.image.display());
        // A damaged header or a truncated file is a finding (exit code 1); all else is a wrong request (2).
        match problem {
            ImageProblem::File(ImageError::Header(_) | ImageError::Truncated { .. }) => Failure::Run(error),
            _ => Failure::Request(error),
        }
    };
    let image = Image::open(&args.image, Access::Read).map_err(|error| refuse(error.into()))?;
    let config = image_config(&image).map_err(refuse)?;
    let needed = memory_bytes(&config).map_err(|error| Failure::request(&error))?;
    if let Some(available) = available_bytes().filter(|&available| needed > available) {
        let (needed, available) = (bytes(needed as f64), bytes(available as f64));
        let error =
            anyhow!("the image is checked in memory, which may need {needed}; {available} are available");
        return Err(Failure::Request(error));
    }
    let examined = examine(&image).map_err(refuse)?;
    // A drive that cannot be recovered counts as broken, as does one that fails the checker.
    let broken = examined.drive.as_ref().map_or_else(
        |error| Some(error.to_string()),
        |(drive, _)| drive.check().err().map(|error| error.to_string()),
    );
    output::print(&summary(&args.image, &image.info().geometry, &examined, broken.as_deref()))?;
    let mut complaints = Vec::new();
    match examined.scan.damage.len() {
        0 if broken.is_none() => {}
        0 => complaints.push(format!("{} is damaged", args.image.display())),
        1 => complaints.push(format!("{} is damaged in 1 place", args.image.display())),
        places => complaints.push(format!("{} is damaged in {places} places", args.image.display())),
    }
    match (&args.extract, &examined.drive) {
        (Some(target), Ok((drive, _))) => extract(drive, target)?,
        (Some(_), Err(_)) => complaints.push("nothing can be extracted without the map".to_owned()),
        (None, _) => {}
    }
    if complaints.is_empty() { Ok(()) } else { Err(Failure::Run(anyhow!(complaints.join("; ")))) }
}

fn summary(path: &Path, geometry: &Geometry, examined: &Examined, broken: Option<&str>) -> String {
    let Examined { scan, erase_counts, bad_blocks, drive, .. } = examined;
    let spec = geometry.spec();
    let mut out = format!("image {}\n", path.display());
    let mut line = |key: &str, text: String| {
        let _ = writeln!(out, "  {key:9} {text}");
    };
    line(
        "flash",
        format!(
            "{}: {} channels × {} dies × {} planes × {} blocks × {} pages of {}; mapping units of {}",
            bytes(geometry.raw_bytes() as f64),
            spec.channels,
            spec.dies_per_channel,
            spec.planes_per_die,
            spec.blocks_per_plane,
            spec.pages_per_block,
            bytes(f64::from(spec.page_bytes)),
            bytes(f64::from(spec.unit_bytes)),
        ),
    );
    let erases: u64 = erase_counts.iter().map(|&n| u64::from(n)).sum();
    line(
        "blocks",
        format!(
            "erased {} to {} times, {:.2} on average; {bad_blocks} bad",
            erase_counts.iter().min().unwrap_or(&0),
            erase_counts.iter().max().unwrap_or(&0),
            erases as f64 / erase_counts.len().max(1) as f64,
        ),
    );
    line(
        "pages",
        format!(
            "{} of data, {} of the drive's tables, {} without readable content, of {}",
            count(scan.data_pages),
            count(scan.table_pages),
            count(scan.empty_pages),
            count(geometry.pages().into())
        ),
    );
    match drive {
        Ok((drive, recovery)) => {
            line("map", recovered(recovery));
            let (mapped, units) = (drive.mapped_units(), drive.logical_units());
            line(
                "disk",
                format!("{} of {} mapping units hold data", count(mapped.into()), count(units.into())),
            );
            line("state", broken.unwrap_or("every invariant holds").to_owned());
        }
        Err(error) => line("map", error.to_string()),
    }
    for damage in scan.damage.iter().take(SHOWN) {
        line("DAMAGED", damage.to_string());
    }
    match scan.damage.len() {
        0 if broken.is_none() => out + "clean",
        0 => out + "NOT CLEAN",
        places => {
            let more = if places > SHOWN {
                format!(", {} of them not shown", places - SHOWN)
            } else {
                String::new()
            };
            // Unexpected bytes between the regions of the file damage no data.
            let lost = if scan.damage.iter().all(|damage| matches!(damage, Damage::Padding { .. })) {
                "no data is lost, but the file contains foreign bytes"
            } else {
                "the newest data there is lost and reads as zeros or as an older version"
            };
            let s = if places == 1 { "" } else { "s" };
            out + &format!("DAMAGED in {places} place{s}{more}: {lost}")
        }
    }
}

/// Writes the disk to `target`, which must not exist.
fn extract(drive: &ImageDrive, target: &Path) -> Result<(), Failure> {
    let context = |error: io::Error| {
        anyhow::Error::new(error).context(format!("cannot extract to {}", target.display()))
    };
    let file = File::create_new(target).map_err(|error| Failure::Request(context(error)))?;
    write_disk(drive, file).map_err(|error| {
        let _ = std::fs::remove_file(target);
        Failure::Run(context(error))
    })
}

fn write_disk(drive: &ImageDrive, mut file: File) -> io::Result<()> {
    let unit_bytes = u64::from(drive.geometry().unit_bytes());
    file.set_len(u64::from(drive.logical_units()) * unit_bytes)?;
    let mut content = vec![0; unit_bytes as usize];
    for lpn in 0..drive.logical_units() {
        let unit = drive.ftl().peek(Lpn::new(lpn));
        if unit == UnitBytes::zero() {
            continue;
        }
        unit.copy_to(&mut content);
        file.seek(SeekFrom::Start(u64::from(lpn) * unit_bytes))?;
        file.write_all(&content)?;
    }
    file.sync_all()
}
