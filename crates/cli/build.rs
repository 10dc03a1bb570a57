//! Finds the commit of a release build, for `strobe --version`.
//!
//! Other builds skip it: each commit would recompile this crate.

use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=STROBE_COMMIT");
    let given = std::env::var("STROBE_COMMIT").ok();
    let is_optimised = std::env::var("PROFILE").is_ok_and(|profile| profile == "release");
    let commit = given.or_else(|| if is_optimised { packaged().or_else(checked_out) } else { None });
    let version = std::env::var("CARGO_PKG_VERSION").unwrap_or_default();
    let commit = commit.map(|commit| format!(" ({commit})")).unwrap_or_default();
    println!("cargo::rustc-env=STROBE_VERSION={version}{commit}");
}

/// Commit recorded in a package from a registry.
fn packaged() -> Option<String> {
    let text = std::fs::read_to_string(".cargo_vcs_info.json").ok()?;
    let hash = text.split("\"sha1\":").nth(1)?.split('"').nth(1)?;
    hash.get(..9).map(str::to_owned)
}

fn git(args: &[&str]) -> Option<String> {
    let output = Command::new("git").args(args).output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8(output.stdout).ok()?.trim().to_owned())
}

fn checked_out() -> Option<String> {
    let folder = git(&["rev-parse", "--absolute-git-dir"])?;
    let common = git(&["rev-parse", "--path-format=absolute", "--git-common-dir"])?;
    for watched in [format!("{folder}/HEAD"), format!("{common}/packed-refs"), format!("{common}/refs/heads")]
    {
        if Path::new(&watched).exists() {
            println!("cargo::rerun-if-changed={watched}");
        }
    }
    git(&["rev-parse", "--short=9", "HEAD"])
}
