//! What tests need of the machine: a program, or a kernel for guests.
//!
//! A test that cannot have it says `SKIPPED: test: reason`, past the capture of output, so that a green run
//! shows what it is not about. Where it must be there, the test fails: programs with `CI=true`, which
//! `scripts/setup.sh` installs; a kernel, and what guests run, with `STROBE_REQUIRE_KERNEL=1`.

use std::collections::BTreeSet;
use std::fmt::Display;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// What a test cannot do without, and so who demands it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// A program of the host.
    Program,
    /// A kernel for guests, or a program that guests run.
    Kernel,
}

impl Need {
    /// Whether a test must fail without it.
    fn is_demanded(self, variable: impl Fn(&str) -> Option<String>) -> bool {
        let name = match self {
            Need::Program => "CI",
            Need::Kernel => "STROBE_REQUIRE_KERNEL",
        };
        variable(name).is_some_and(|value| !["", "0", "false"].contains(&value.as_str()))
    }

    fn cure(self) -> &'static str {
        match self {
            Need::Program => "`sh scripts/setup.sh` installs it, or says how",
            Need::Kernel => "`make kernel` installs what guests need and builds their kernel",
        }
    }
}

/// What was found. If nothing was, the test is skipped aloud, or fails where it is demanded.
#[track_caller]
pub fn found<T>(need: Need, found: Result<T, impl Display>) -> Option<T> {
    found.map_err(|reason| skip(need, reason)).ok()
}

/// What has been said: a test that asks for a program a hundred times is skipped once.
static SAID: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());

/// Says that the test, or a part of it, is skipped; fails where what it needs is demanded.
#[track_caller]
pub fn skip(need: Need, reason: impl Display) {
    let thread = std::thread::current();
    let test = thread.name().unwrap_or("a test");
    let demanded = need.is_demanded(|name| std::env::var(name).ok());
    assert!(!demanded, "{test} cannot be skipped here: {reason}; {}", need.cure());
    let line = format!("SKIPPED: {test}: {reason}; {}\n", need.cure());
    let mut said = SAID.lock().unwrap_or_else(PoisonError::into_inner);
    if said.insert(line.clone()) {
        // The macros write where nobody looks unless the test fails; one write, so that lines stay whole.
        let _ = std::io::stderr().write_all(line.as_bytes());
    }
}

/// Where a program of the host is, which `package` brings: also in folders that only root looks into.
#[track_caller]
pub fn program(name: &str, package: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(["/usr/sbin", "/sbin"].map(PathBuf::from));
    let file = folders.map(|folder| folder.join(name)).find(|file| Path::is_file(file));
    found(Need::Program, file.ok_or_else(|| format!("there is no {name} (package {package})")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_demanded_is_up_to_one_variable_each() {
        let with = |set: &'static str, value: &'static str| {
            move |name: &str| (name == set).then(|| value.to_owned())
        };
        for (need, mine, other) in
            [(Need::Program, "CI", "STROBE_REQUIRE_KERNEL"), (Need::Kernel, "STROBE_REQUIRE_KERNEL", "CI")]
        {
            assert!(need.is_demanded(with(mine, "1")) && need.is_demanded(with(mine, "true")));
            for value in ["", "0", "false"] {
                assert!(!need.is_demanded(with(mine, value)), "{mine}={value}");
            }
            assert!(!need.is_demanded(with(other, "1")));
        }
    }

    #[test]
    fn a_program_is_found_where_it_is() {
        assert!(program("sh", "dash").is_some_and(|path| path.is_file()));
    }
}
