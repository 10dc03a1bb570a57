//! The paper's figure 2: data around a logical copy after a power cut at the moments C1 to C4.

use strobe_lab::RunError;
use strobe_ssd::{Command, CommandError, CopyMode, DataMode, Range, Simulated, build};
use strobe_types::{Lba, SimTime};

use super::{CLAIMS, SHIPPED};
use crate::table::Values;
use crate::{Claim, Figure, Options, PaperError, Row, View};

const BLOCK_SECTORS: u32 = 8;
const BLOCK_BYTES: usize = 4096;
const BLOCKS: u64 = 64;
const SOURCE: u64 = 0;
const DESTINATION: u64 = 1000;
const OTHERS: u64 = 2000;
/// Number of writes after the copy: W3 in the paper's figure.
const BEHIND: u64 = 8;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Found {
    case: &'static str,
    /// Number of sources with wrong contents.
    lost: f64,
    /// Destinations with the copy, in percent.
    copied: f64,
    wrong: f64,
    /// Writes after the copy that survived, in percent.
    behind: f64,
}

fn content(block: u64) -> Vec<u8> {
    (block + 1).to_le_bytes().repeat(BLOCK_BYTES / 8)
}

fn lba(block: u64) -> Lba {
    Lba::new(block * u64::from(BLOCK_SECTORS))
}

pub(super) fn measure(options: &Options) -> Result<Vec<Found>, PaperError> {
    let failed = |error: RunError| PaperError::Run { run: "recovery".to_owned(), error: Box::new(error) };
    let config = crate::drive(SHIPPED.preset, options, |drive| {
        (drive.nand.blocks_per_plane, drive.nand.pages_per_block) = (32, 16);
        drive.nand.data = DataMode::Bytes;
        drive.ftl.logical_pages = Some(6000);
        drive.ftl.copy_mode = CopyMode::Logical;
        drive.ftl.virtual_map_entries = 256;
    })?;
    let mut drive = build(&config, true, options.seed).map_err(|error| failed(error.into()))?;
    let command = |error: CommandError| failed(RunError::Command(error));
    let mut now = SimTime::ZERO;
    let mut others = OTHERS..;
    let mut write_others = |drive: &mut dyn Simulated, now: SimTime, blocks: usize| {
        others.by_ref().take(blocks).try_fold(now, |now, block| {
            // Addresses wrap, so that the drive has free space.
            drive.write_bytes(now, lba(OTHERS + block % 2000), &content(block))
        })
    };
    for block in 0..BLOCKS {
        now = drive.write_bytes(now, lba(SOURCE + block), &content(SOURCE + block)).map_err(command)?;
    }
    now = drive.execute(now, &Command::Flush).map_err(command)?;
    now = drive.settle(now).map_err(command)?;
    let mut found = Vec::new();
    let mut cut =
        |case, drive: &dyn Simulated, now| look(case, drive, now).map(|of| found.push(of)).map_err(command);
    now = write_others(&mut *drive, now, 8).map_err(command)?;
    cut("C1: before the copy", &*drive, now)?;
    let sources = [Range::new(lba(SOURCE), BLOCKS as u32 * BLOCK_SECTORS)];
    let copy = Command::Copy { destination: lba(DESTINATION), sources: &sources };
    now = drive.execute(now, &copy).map_err(command)?;
    now = write_others(&mut *drive, now, BEHIND as usize).map_err(command)?;
    cut("C2: after the copy", &*drive, now)?;
    // Enough to fill the open block of every die: the drive writes its map before it opens another block.
    now = write_others(&mut *drive, now, 2 * 8 * 16 * 2).map_err(command)?;
    now = drive.settle(now).map_err(command)?;
    cut("C3: after a change of the open block", &*drive, now)?;
    now = drive.execute(now, &Command::Flush).map_err(command)?;
    now = drive.settle(now).map_err(command)?;
    cut("C4: after the next checkpoint", &*drive, now)?;
    Ok(found)
}

fn look(case: &'static str, drive: &dyn Simulated, now: SimTime) -> Result<Found, CommandError> {
    let nothing = Found { case, lost: BLOCKS as f64, copied: 0.0, wrong: BLOCKS as f64, behind: 0.0 };
    // If the drive does not restart, all data counts as lost.
    let Ok((mut drive, _)) = drive.freeze().restart(now) else { return Ok(nothing) };
    let mut of = Found { case, lost: 0.0, copied: 0.0, wrong: 0.0, behind: 0.0 };
    let mut bytes = vec![0; BLOCK_BYTES];
    for block in 0..BLOCKS {
        let expected = content(SOURCE + block);
        drive.read_bytes(now, lba(SOURCE + block), &mut bytes)?;
        of.lost += f64::from(u8::from(bytes != expected));
        drive.read_bytes(now, lba(DESTINATION + block), &mut bytes)?;
        let empty = bytes.iter().all(|&byte| byte == 0);
        of.copied += if bytes == expected { 100.0 / BLOCKS as f64 } else { 0.0 };
        of.wrong += f64::from(u8::from(bytes != expected && !empty));
    }
    // Skip the writes from before the copy, which are `BEHIND` as well.
    for block in OTHERS + BEHIND..OTHERS + 2 * BEHIND {
        drive.read_bytes(now, lba(block), &mut bytes)?;
        of.behind += if bytes == content(block) { 100.0 / BEHIND as f64 } else { 0.0 };
    }
    Ok(of)
}

pub(super) fn figure(found: &[Found]) -> Figure {
    let mut rows = Vec::new();
    for of in found {
        for (quantity, unit, value) in [
            ("sources lost", "blocks", of.lost),
            ("destinations with other data", "blocks", of.wrong),
            ("destinations with the copy", "%", of.copied),
            ("writes after the copy (W3)", "%", of.behind),
        ] {
            rows.push(Row::new(
                &[("quantity", quantity), ("power cut", of.case), ("unit", unit)],
                Some(value),
            ));
        }
    }
    Figure::new(
        "2",
        format!("{BLOCKS} blocks and their logical copies after a power cut"),
        View::Table { down: &["power cut"], across: "quantity" },
        rows,
    )
    .noted("the file system returns to its last checkpoint: to the sources in C1 to C3, to the copies in C4")
}

pub(super) fn claims(found: &[Found]) -> Vec<Claim> {
    let mut values = Values::default();
    values.add("power-cut", found.iter().map(|of| of.lost + of.wrong).reduce(f64::max));
    values.add("power-cut-c4", found.last().map(|of| of.copied));
    values.add("power-cut-w3 c2", found.get(1).map(|of| of.behind));
    values.add("power-cut-w3 c3", found.get(2).map(|of| of.behind));
    values.judged(CLAIMS, "")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Scale;

    #[test]
    fn a_power_cut_loses_neither_source_nor_copy() {
        let found = measure(&Options::new(Scale::Tiny, 1)).expect("runs");
        assert_eq!(found.len(), 4);
        assert!(found.iter().all(|of| of.lost == 0.0 && of.wrong == 0.0), "{found:?}");
        // No copy before the command, all copies after the flush.
        assert_eq!((found[0].copied, found[3].copied), (0.0, 100.0), "{found:?}");
        // Writes after the copy are not durable before the open block is exchanged.
        assert_eq!(
            found.iter().map(|of| of.behind).collect::<Vec<_>>(),
            [0.0, 0.0, 100.0, 100.0],
            "{found:?}"
        );
    }
}
