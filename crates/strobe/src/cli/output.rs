//! Where results go.

use std::io::{ErrorKind, Write};
use std::path::Path;

use anyhow::Context as _;
use serde::Serialize;

use super::Failure;

/// Prints to standard output. A reader that has gone away (`| head`) is no error; anything else,
/// a full disk for one, is.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.write_all(b"\n")).and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(Failure::Run(anyhow::Error::new(error).context("cannot write to standard output")))
        }
        _ => Ok(()),
    }
}

/// Tells the person who waits what is going on; nobody may be there.
pub(crate) fn note(text: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{text}");
}

/// Writes `value` as JSON to `target`: a file, or "-" for standard output.
pub(crate) fn json(value: &impl Serialize, target: &str) -> Result<(), Failure> {
    let text = serde_json::to_string_pretty(value).expect("results are plain data");
    if target == "-" {
        return print(&text);
    }
    write_file(Path::new(target), &text).map_err(Failure::Run)
}

/// Writes the whole file or says why not; a file that could not be completed is removed.
fn write_file(path: &Path, text: &str) -> anyhow::Result<()> {
    let context = || format!("cannot write the result to {}", path.display());
    let mut file = std::fs::File::create(path).with_context(context)?;
    let written =
        file.write_all(text.as_bytes()).and_then(|()| file.write_all(b"\n")).and_then(|()| file.sync_all());
    match written {
        // Pipes and devices cannot be synced, which is fine.
        Err(error) if error.kind() != ErrorKind::InvalidInput => {
            if path.is_file() {
                let _ = std::fs::remove_file(path);
            }
            Err(error).with_context(context)
        }
        _ => Ok(()),
    }
}

/// Before a long run: can the result be written there at all, and not over one of `inputs`?
pub(crate) fn check_target(target: &Option<String>, inputs: &[&Path]) -> Result<(), Failure> {
    let Some(target) = target.as_deref().filter(|&t| t != "-") else { return Ok(()) };
    let same = |input: &&Path| {
        input.is_file() && std::fs::canonicalize(target).ok() == std::fs::canonicalize(input).ok()
    };
    if inputs.iter().any(same) {
        return Err(Failure::Request(anyhow::anyhow!("--json {target}: that is an input of this run")));
    }
    let parent = Path::new(target).parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let names_a_file = !target.is_empty() && !target.ends_with('/') && !Path::new(target).is_dir();
    if parent.is_dir() && names_a_file {
        return Ok(());
    }
    Err(Failure::Request(anyhow::anyhow!("--json \"{target}\": not a file in an existing folder")))
}
