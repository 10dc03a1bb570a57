//! Fingerprint of the compiled-in model. A program built from other sources may give other results.

use std::path::{Path, PathBuf};
use std::{fs, io};

use sha2::{Digest as _, Sha256};

/// Crates that results depend on. `linux` affects results of guests only.
const CRATES: [&str; 7] = ["types", "nand", "ftl", "ssd", "workload", "linux", "lab"];

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let folder = PathBuf::from(std::env::var("CARGO_MANIFEST_DIR").unwrap_or_default());
    let folders: Vec<PathBuf> = CRATES.iter().map(|name| folder.join("..").join(name).join("src")).collect();
    let version = std::env::var("CARGO_PKG_VERSION").unwrap_or_default();
    // A package from a registry is not next to its sibling crates; the version alone identifies the model.
    let model = match fingerprint(&folders) {
        Ok(fingerprint) => format!("{version} {fingerprint}"),
        Err(_) => version,
    };
    println!("cargo::rustc-env=STROBE_MODEL={model}");
}

fn fingerprint(folders: &[PathBuf]) -> io::Result<String> {
    let mut hash = Sha256::new();
    for (name, folder) in CRATES.iter().zip(folders) {
        println!("cargo::rerun-if-changed={}", folder.display());
        let mut files = Vec::new();
        collect(folder, &mut files)?;
        files.sort();
        for file in files {
            hash.update(name);
            hash.update(file.strip_prefix(folder).unwrap_or(&file).to_string_lossy().as_bytes());
            hash.update(fs::read(&file)?);
        }
    }
    Ok(hash.finalize()[..6].iter().map(|byte| format!("{byte:02x}")).collect())
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            collect(&path, files)?;
        } else {
            files.push(path);
        }
    }
    Ok(())
}
