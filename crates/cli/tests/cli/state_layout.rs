//! Layout of saved states, tied to the format version (`crates/ssd/src/state_file.rs`).
//! `tests/data/state-*.gz` holds states of tiny drives.
//!
//! A newly saved state must have the same bytes, except for its header. If it differs, the stored states tell
//! why: one that cannot be read, or is not rewritten identically, has another layout. Then raise the version
//! and run `STROBE_BLESS=1 cargo test -p strobe-cli --test cli state_layout` to rewrite them. It also accepts
//! intended changes of results, but never hides a layout change.

use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use strobe_ssd::{StateFile, StateProblem, write_state};

use crate::{Folder, root};

const PAGE: &str = "\
seed = 7
[drive]
preset = \"generic-8g\"
[drive.nand]
channels = 2
dies_per_channel = 1
planes_per_die = 1
blocks_per_plane = 24
pages_per_block = 6
data = \"stamp\"
factory_bad_blocks = 1
suspend.most = 2
read_retry.per_kread = 1.0
[drive.ftl]
logical_pages = 90
durable_map = true
gc = { victim = \"cat\" }
placement = { scheme = \"hot-cold\" }
wear_leveling = { kind = \"swap\", threshold = 4 }
slc_cache = { dynamic_blocks = 2 }
refresh = { reads = 100 }
[drive.controller]
write_buffer_bytes = 8192
nvram = { bytes = 4096 }
jitter_ns = 1000
[workload]
kind = \"zipf\"
write_fraction = 0.8
trim_fraction = 0.1
queue_depth = 4
flush_every = 10
[run]
warmup = \"3x\"
measure = \"1x\"
";

fn board(mapping: &str, keys: &str) -> String {
    format!(
        "seed = 7\n[drive]\npreset = \"ez-x5-32m\"\n\
         nand = {{ blocks_per_plane = 24, pages_per_block = 8, data = \"stamp\" }}\n\
         [drive.ftl]\nmapping = \"{mapping}\"\nlogical_pages = 96\n{keys}\n\
         [workload]\nblock_bytes = 512\n[run]\nwarmup = \"2x\"\nmeasure = \"1x\"\n"
    )
}

fn experiments() -> [(&'static str, String); 5] {
    let logs = "log_blocks = 4";
    [
        ("page", PAGE.to_owned()),
        // With the log of trims and the virtual map.
        (
            "dftl",
            board("dftl", "translation.cached_entries = 16\ndurable_map = true")
                .replace("logical_pages = 96", "logical_pages = 72"),
        ),
        ("replacement-block", board("replacement-block", logs)),
        ("log-block", board("log-block", logs)),
        ("fast", board("fast", logs)),
    ]
}

fn content(state: &[u8]) -> Vec<u8> {
    let (mut content, mut rest) = (Vec::new(), &state[12..]);
    loop {
        let length = u32::from_le_bytes(rest[..4].try_into().expect("four bytes")) as usize;
        if length == 0 {
            break;
        }
        content.extend(&rest[8..8 + length]);
        rest = &rest[8 + length..];
    }
    let header = u64::from_le_bytes(content[..8].try_into().expect("eight bytes")) as usize;
    content.split_off(8 + header)
}

fn drive_again(path: &Path) -> Result<Vec<u8>, String> {
    let state = StateFile::open(path).map_err(|error| error.to_string())?;
    let header = state.header().clone();
    let drive = state.load(&mut |from| from.skip_rest()).map_err(|error| error.to_string())?;
    let mut again = Vec::new();
    write_state(&mut again, &header, &*drive, &|_| {}).map_err(|error| error.to_string())?;
    Ok(content(&again))
}

fn is_of_another_version(path: &Path) -> bool {
    StateFile::open(path).is_err_and(|error| matches!(error.problem, StateProblem::Version { .. }))
}

/// Reason why this program would not write the state at `path`, of the current version.
fn layout_change(folder: &Folder, path: &Path, kept: &[u8]) -> Option<String> {
    let again = match drive_again(path) {
        Ok(again) => again,
        Err(reason) => return Some(reason),
    };
    if !content(kept).starts_with(&again) {
        return Some("its drive is not written as it was read".to_owned());
    }
    let from_it = ["run", "exp.toml", "--quiet", "--check", "--from-state", "kept.state"];
    let ended = folder.strobe(&from_it);
    (ended.code != 0).then_some(ended.err)
}

fn kept_at(name: &str) -> PathBuf {
    root().join(format!("crates/cli/tests/data/state-{name}.gz"))
}

fn unpacked(path: &Path) -> Option<Vec<u8>> {
    let mut state = Vec::new();
    GzDecoder::new(std::fs::File::open(path).ok()?).read_to_end(&mut state).expect("a gzip file");
    Some(state)
}

fn keep(path: &Path, state: &[u8]) {
    let file = std::fs::File::create(path).expect("the data folder is writable");
    let mut packed = GzEncoder::new(file, Compression::best());
    packed.write_all(state).and_then(|()| packed.finish().map(drop)).expect("written");
}

#[test]
fn state_layout_belongs_to_the_version_of_the_format() {
    let blessed = std::env::var_os("STROBE_BLESS").is_some();
    let bless = "STROBE_BLESS=1 cargo test -p strobe-cli --test cli state_layout";
    for (name, text) in experiments() {
        let folder = Folder::new();
        folder.write("exp.toml", &text);
        folder.strobe(&["run", "exp.toml", "--quiet", "--save-state", "now.state"]).ok();
        let now = std::fs::read(folder.path().join("now.state")).expect("saved");
        let path = kept_at(name);
        let Some(kept) = unpacked(&path) else {
            assert!(blessed, "{} is not there: {bless}", path.display());
            keep(&path, &now);
            continue;
        };
        if content(&kept) == content(&now) && kept[..12] == now[..12] {
            continue;
        }
        folder.write("kept.state", &kept);
        let kept_path = folder.path().join("kept.state");
        if !is_of_another_version(&kept_path)
            && let Some(reason) = layout_change(&folder, &kept_path, &kept)
        {
            panic!(
                "{name}: the layout of states has changed, and the version of their format has not ({reason}): raise \
                 VERSION in crates/ssd/src/state_file.rs, say so in docs/FORMAT.md, then {bless}"
            );
        }
        assert!(
            blessed,
            "{name}: states have other bytes than those kept in {}. If the version of the format was raised, or results \
             are meant to change: {bless}. If neither, fields have changed places: raise the version first",
            path.display()
        );
        keep(&path, &now);
    }
}
