//! Requirements of tests: a host program, or a kernel for guests.
//!
//! A test whose requirement is missing prints `SKIPPED: test: reason`, bypassing output capture, so a passing
//! run shows the skipped tests. If the requirement is mandatory, the test fails instead. `CI=true` makes
//! programs mandatory; `scripts/setup.sh` installs them. `STROBE_REQUIRE_KERNEL=1` makes the kernel and the
//! guest programs mandatory.

mod seeds;

use std::collections::BTreeSet;
use std::fmt::Display;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

pub use seeds::{Seed, Seeds, seeds};

/// Kind of requirement. An environment variable makes each kind mandatory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// A host program.
    Program,
    /// A kernel for guests, or a guest program.
    Kernel,
}

impl Need {
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

/// Unwraps a search result. If nothing was found, the test is skipped with a message, or fails if the
/// requirement is mandatory.
#[track_caller]
pub fn found<T>(need: Need, found: Result<T, impl Display>) -> Option<T> {
    found.map_err(|reason| skip(need, reason)).ok()
}

/// Messages already printed: a test reports each skip once.
static SAID: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());

/// Reports that the test or a part of it is skipped. Panics if the requirement is mandatory.
#[track_caller]
pub fn skip(need: Need, reason: impl Display) {
    let thread = std::thread::current();
    let test = thread.name().unwrap_or("a test");
    let demanded = need.is_demanded(|name| std::env::var(name).ok());
    assert!(!demanded, "{test} cannot be skipped here: {reason}; {}", need.cure());
    let line = format!("SKIPPED: {test}: {reason}; {}\n", need.cure());
    let mut said = SAID.lock().unwrap_or_else(PoisonError::into_inner);
    if said.insert(line.clone()) {
        // The print macros are captured unless the test fails. A single write keeps the line in one piece.
        let _ = std::io::stderr().write_all(line.as_bytes());
    }
}

/// Path of a host program from `package`, searched in `PATH`, `/usr/sbin` and `/sbin`.
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
