//! Drives by name: bundled presets, presets in the user's folder, and files.

use std::path::{Path, PathBuf};

use strobe_ssd::schema::nearest;
use strobe_ssd::{DriveConfig, KeyError, presets};
use toml::{Table, Value};

use crate::ConfigError;
use crate::syntax::{parse_table, read_text};

const DEPTH_MAX: usize = 8;

/// Folder of the user's presets: `strobe/presets` in `$XDG_CONFIG_HOME`, or in `~/.config`.
pub fn user_folder() -> Option<PathBuf> {
    let absolute = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let config = absolute("XDG_CONFIG_HOME").or_else(|| Some(absolute("HOME")?.join(".config")))?;
    Some(config.join("strobe").join("presets"))
}

/// Presets of the user by name, with their files.
pub fn of_user() -> Vec<(String, PathBuf)> {
    let Some(entries) = user_folder().and_then(|folder| std::fs::read_dir(folder).ok()) else {
        return Vec::new();
    };
    let mut found: Vec<(String, PathBuf)> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|end| end == "toml"))
        .filter_map(|path| Some((path.file_stem()?.to_str()?.to_owned(), path)))
        .collect();
    found.sort();
    found
}

pub(crate) fn is_path(name: &str) -> bool {
    name.contains('/') || name.ends_with(".toml")
}

/// Returns the text of the preset `name`, comments included, and the folder that paths in it are relative to.
pub fn text(name: &str, folder: &Path, key: &str) -> Result<(String, PathBuf), ConfigError> {
    if let Some(preset) = presets::find(name) {
        // A file of the user must not hide a bundled preset.
        if let Some((_, path)) = of_user().into_iter().find(|(own, _)| own == name) {
            let allowed =
                format!("a unique name, but {} has the name of a preset: rename that file", path.display());
            return Err(KeyError::value(key, format!("\"{name}\""), allowed, "").into());
        }
        return Ok((preset.toml.to_owned(), PathBuf::new()));
    }
    let path = match of_user().into_iter().find(|(own, _)| own == name) {
        _ if is_path(name) => folder.join(name),
        Some((_, path)) => path,
        None => {
            let own = of_user();
            let names = presets::PRESETS.iter().map(|preset| preset.name);
            let names: Vec<&str> = names.chain(own.iter().map(|(name, _)| name.as_str())).collect();
            return Err(ConfigError::Key(KeyError::Name {
                key: key.to_owned(),
                given: format!("\"{name}\""),
                nearest: nearest(name, names.iter().copied()).map(str::to_owned),
                valid: format!("{}, or the path of a file that ends in .toml", names.join(", ")),
            }));
        }
    };
    Ok((read_text(&path)?, path.parent().unwrap_or(Path::new("")).to_owned()))
}

/// Returns a `[drive]` table that refers to `name`: a preset, or a TOML file with the keys of `[drive]`.
/// Errors name `option`, such as "--drive".
pub fn load_drive_table(name: &str, option: &str) -> Result<Table, ConfigError> {
    // Looked up only for its errors, which here name the option.
    text(name, Path::new(""), option)?;
    Ok(Table::from_iter([("preset".to_owned(), name.into())]))
}

pub(crate) fn drive(given: Table, folder: &Path) -> Result<DriveConfig, ConfigError> {
    let mut table = based_on(&given, folder, 0)?;
    presets::overlay(&mut table, given)?;
    Ok(DriveConfig::from_table(table)?)
}

/// Returns the complete table of the preset that `drive` is based on.
fn based_on(drive: &Table, folder: &Path, depth: usize) -> Result<Table, ConfigError> {
    let bad = |given: String, allowed: &str| KeyError::value("drive.preset", given, allowed, "");
    let name = match drive.get("preset") {
        None => presets::DEFAULT,
        Some(Value::String(name)) => name,
        Some(other) => {
            let names: Vec<&str> = presets::PRESETS.iter().map(|preset| preset.name).collect();
            let allowed = format!("one of {}, or the path of a file", names.join(", "));
            return Err(bad(other.to_string(), &allowed).into());
        }
    };
    // Files may be based on each other: the depth limit ends a cycle.
    if depth >= DEPTH_MAX {
        return Err(bad(format!("\"{name}\""), "a preset that is not based on itself").into());
    }
    let (text, home) = text(name, folder, "drive.preset")?;
    if let Some(preset) = presets::find(name) {
        return Ok(preset.table());
    }
    let in_file = |error: ConfigError| in_file(name, error);
    let mut own = parse_table(&text, name)?;
    if let Some(Value::Table(drive)) = own.remove("drive") {
        if let Some(key) = own.keys().next() {
            let wrong = format!("[{key}] next to [drive]");
            let allowed = "left out: a preset is the table [drive] or its keys alone, this is an experiment";
            return Err(in_file(bad(wrong, allowed).into()));
        }
        own = drive;
    }
    let mut base = based_on(&own, &home, depth + 1).map_err(in_file)?;
    presets::overlay(&mut base, own).map_err(|error| in_file(error.into()))?;
    // Checked before the caller adds its own keys, so an error names this file.
    DriveConfig::check_table(&mut base).map_err(|error| in_file(error.into()))?;
    base.insert("preset".into(), name.into());
    Ok(base)
}

fn in_file(name: &str, error: ConfigError) -> ConfigError {
    match error {
        error @ (ConfigError::In { .. } | ConfigError::Syntax { .. } | ConfigError::File { .. }) => error,
        error => ConfigError::In { path: name.to_owned(), error: Box::new(error) },
    }
}

#[cfg(test)]
mod tests {
    use crate::Experiment;
    use std::path::Path;

    fn drive(
        text: &str,
        sets: &[&str],
        folder: &Path,
    ) -> Result<strobe_ssd::DriveConfig, crate::ConfigError> {
        let sets: Vec<String> = sets.iter().map(|set| (*set).to_owned()).collect();
        let table = text.parse().expect("TOML");
        Experiment::from_table(table, &sets, folder).map(|experiment| experiment.drive)
    }

    #[test]
    fn a_resized_preset_keeps_its_over_provisioning_unless_told_otherwise() {
        let here = Path::new("");
        let pages = |sets: &[&str]| drive("", sets, here).expect("valid").ftl.logical_pages;
        assert_eq!(pages(&[]), Some(1_635_778));
        assert_eq!(pages(&["drive.nand.blocks_per_plane=32768"]), Some(4 * 1_635_778));
        assert_eq!(pages(&["drive.nand.blocks_per_plane=4096"]), Some(1_635_778 / 2));
        // The same bytes in larger units.
        assert_eq!(pages(&["drive.nand.page_bytes=16k", "drive.nand.pages_per_block=64"]), Some(1_635_778));
        assert_eq!(
            pages(&["drive.nand.page_bytes=8192", "drive.ftl.mapping_unit_bytes=8192"]),
            Some(1_635_778)
        );
        let sets = &["drive.nand.blocks_per_plane=32768", "drive.ftl.logical_pages=1000"];
        assert_eq!(pages(sets), Some(1000));
        let sets = &["drive.nand.blocks_per_plane=32768", "drive.ftl.over_provisioning=0.1"];
        assert_eq!(pages(sets), None);
    }

    #[test]
    fn a_preset_may_be_a_file_based_on_another_file() {
        let folder = tempfile::tempdir().expect("a folder");
        let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).expect("written");
        std::fs::create_dir(folder.path().join("sub")).expect("made");
        write("mine.toml", "preset = \"sub/base.toml\"\n[nand]\nread_ns = 1");
        write("sub/base.toml", "[drive]\npreset = \"ez-x5-32m\"\n[drive.nand]\nread_ns = 2\nerase_ns = 3");
        let config = drive("[drive]\npreset = \"mine.toml\"", &[], folder.path()).expect("valid");
        assert_eq!((config.nand.read_ns, config.nand.erase_ns, config.nand.page_bytes), (1.into(), 3, 512));
        assert_eq!(config.preset.as_deref(), Some("mine.toml"));
        let complete = strobe_ssd::presets::find("jasmine-4g").expect("exists").toml;
        write("shown.toml", complete);
        let shown = drive("[drive]\npreset = \"shown.toml\"", &[], folder.path()).expect("as it is");
        let named = drive("[drive]\npreset = \"jasmine-4g\"", &[], folder.path()).expect("valid");
        assert_eq!((shown.nand, shown.ftl, shown.controller), (named.nand, named.ftl, named.controller));
        write("self.toml", "preset = \"self.toml\"");
        let error = drive("[drive]\npreset = \"self.toml\"", &[], folder.path()).expect_err("a circle");
        assert!(error.to_string().contains("based on itself"), "{error}");
        write("slip.toml", "[nand]\nraed_ns = 3");
        let error = drive("[drive]\npreset = \"slip.toml\"", &[], folder.path()).expect_err("a slip");
        assert!(error.to_string().contains("drive.nand.read_ns"), "{error}");
        let error = drive("[drive]\npreset = \"missing.toml\"", &[], folder.path()).expect_err("none");
        assert!(error.to_string().contains("missing.toml"), "{error}");
    }
}
