use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

const MARK: &str = ".blktrace.";

/// Files of a trace, ordered by CPU.
///
/// They are `NAME.blktrace.0` and its siblings if `path` is one of them, or if `path` is `NAME` or
/// `NAME.blktrace` and does not exist. Otherwise it is only `path`.
pub(super) fn files(path: &Path) -> Vec<PathBuf> {
    let alone = || vec![path.to_path_buf()];
    let Some(name) = path.file_name().and_then(|name| name.to_str()) else { return alone() };
    let stem = match split(name) {
        Some((stem, _)) => stem,
        None if path.exists() => return alone(),
        None => name.strip_suffix(".blktrace").unwrap_or(name),
    };
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let Ok(entries) = folder.read_dir() else { return alone() };
    let mut found = BTreeMap::new();
    for entry in entries.flatten() {
        let name = entry.file_name();
        let Some((own, cpu)) = name.to_str().and_then(split) else { continue };
        // If a CPU has a plain and a compressed file, `path` is preferred.
        let file = path.with_file_name(&name);
        if own == stem && (file == path || !found.contains_key(&cpu)) {
            found.insert(cpu, file);
        }
    }
    if found.is_empty() { alone() } else { found.into_values().collect() }
}

fn split(name: &str) -> Option<(&str, u32)> {
    let plain = [".gz", ".zst"].into_iter().find_map(|end| name.strip_suffix(end)).unwrap_or(name);
    let (stem, cpu) = plain.rsplit_once(MARK)?;
    let is_number = cpu.bytes().all(|byte| byte.is_ascii_digit());
    if stem.is_empty() || !is_number { None } else { Some((stem, cpu.parse().ok()?)) }
}
