//! Search for violated guarantees: random programs, with a power cut after each operation.
//!
//! 1. A random program runs once without a cut.
//! 2. Power is cut after each line that the program prints. The check compares the volume with the
//!    guarantees.
//! 3. A failing program is minimised: operations are left out while it still fails.

use std::path::{Path, PathBuf};

use serde::Serialize;
use strobe_types::StopFlag;

use crate::programs::{Entry, Op, Program, Tree};
use crate::{CutPoints, ExploreError, Explorer, Found, Verdict};

/// Search configuration.
#[derive(Clone, Debug)]
pub struct Search {
    /// Drive, machine and file system, on which [`Program::before`] has run. The program and check are
    /// replaced.
    pub explorer: Explorer,
    /// Command of the check. The plan's file is appended to its arguments.
    pub check: Vec<String>,
    /// Seed of the programs.
    pub seed: u64,
    /// Operations of a program, without the final sync operation.
    pub length: usize,
}

/// Program with a violated guarantee.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Broken {
    /// Program number.
    pub number: u64,
    /// File system.
    pub file_system: String,
    /// Smallest program found that still fails.
    pub program: Program,
    /// Shell script of the program.
    pub script: String,
    /// Operations completed before the cut.
    pub done: usize,
    /// Verdict.
    pub verdict: Verdict,
    /// Violated guarantee or other finding.
    pub reason: String,
}

impl Search {
    /// Tries program `number`. Returns a violated guarantee with the minimised program, if any.
    pub fn one(&self, number: u64, stop: &StopFlag) -> Result<Option<Broken>, ExploreError> {
        let program = Program::random(self.seed, number, self.length);
        let Some(found) = self.try_out(&program, stop)? else { return Ok(None) };
        let (smallest, found) = smallest(program, found, |smaller| self.try_out(smaller, stop))?;
        let file_system = self.explorer.run.file_system.kernel_name().unwrap_or_default().to_owned();
        let Found { acknowledged: done, verdict, reason, .. } = found;
        let script = smallest.script();
        Ok(Some(Broken { number, file_system, program: smallest, script, done, verdict, reason }))
    }

    fn try_out(&self, program: &Program, stop: &StopFlag) -> Result<Option<Found>, ExploreError> {
        let mut explorer = self.explorer.clone();
        let plan = explorer.folder.join("plan.json");
        let json = serde_json::to_string(program).unwrap_or_default();
        std::fs::write(&plan, json).map_err(|error| ExploreError::File(plan.clone(), error))?;
        explorer.run.command = ["sh", "-c", &program.script()].map(str::to_owned).into();
        explorer.check = [&self.check[..], &[plan.display().to_string()]].concat();
        let rehearsed = match explorer.rehearse(stop) {
            // The program wrote nothing to the drive.
            Err(ExploreError::Nothing) => return Ok(None),
            rehearsed => rehearsed?,
        };
        let cuts = rehearsed.choose(CutPoints::Lines, cuts(program), self.seed);
        let found = explorer.cut(&rehearsed, &cuts, stop, &|_| true)?;
        Ok(found.into_iter().find(|one| one.verdict != Verdict::Fine))
    }
}

/// Number of cuts: one after each operation, and one at the end.
fn cuts(program: &Program) -> usize {
    program.0.len() + 1
}

/// Minimises a failing program.
fn smallest<T, E>(
    mut program: Program,
    mut found: T,
    mut shows: impl FnMut(&Program) -> Result<Option<T>, E>,
) -> Result<(Program, T), E> {
    // Leaving out one operation may make a later one superfluous, so passes repeat until one changes nothing.
    loop {
        let before = program.0.len();
        for at in (0..before).rev() {
            let smaller = program.without(at);
            if !smaller.is_possible() || smaller.0.is_empty() {
                continue;
            }
            if let Some(still) = shows(&smaller)? {
                (program, found) = (smaller, still);
            }
        }
        if program.0.len() == before {
            return Ok((program, found));
        }
    }
}

/// Check of a search: compares the folder `top` with the guarantees of the program in the file `plan`.
///
/// The number of lines in the file `acknowledged` is the number of completed operations. Returns the first
/// violated guarantee.
pub fn check_program(plan: &Path, acknowledged: &Path, top: &Path) -> Result<Option<String>, ExploreError> {
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |error| ExploreError::File(path, error)
    };
    let text = std::fs::read(plan).map_err(failed(plan))?;
    let ops: Vec<Op> = serde_json::from_slice(&text).map_err(std::io::Error::from).map_err(failed(plan))?;
    let lines = std::fs::read_to_string(acknowledged).map_err(failed(acknowledged))?;
    let done = lines.lines().count().min(ops.len());
    let mut tree = Tree::new();
    read_tree(top, String::new(), &mut tree)?;
    Ok(Program(ops).broken_promise(done, &tree))
}

fn read_tree(top: &Path, below: String, tree: &mut Tree) -> Result<(), ExploreError> {
    let folder: PathBuf = top.join(&below);
    let failed = |error| ExploreError::File(folder.clone(), error);
    for entry in std::fs::read_dir(&folder).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if below.is_empty() && name == "lost+found" {
            continue;
        }
        let path = if below.is_empty() { name } else { format!("{below}/{name}") };
        if entry.file_type().map_err(failed)?.is_dir() {
            tree.insert(path.clone(), Entry::Folder);
            read_tree(top, path, tree)?;
        } else {
            let data =
                std::fs::read(entry.path()).map_err(|error| ExploreError::File(entry.path(), error))?;
            tree.insert(path, Entry::File(data));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn power_is_cut_behind_each_operation_of_the_longest_program_and_at_its_end() {
        assert_eq!(cuts(&Program::random(1, 1, 100)), 101 + 1);
    }

    #[test]
    fn no_operation_of_the_smallest_program_can_be_left_out() {
        let folder = Op::Mkdir("C".to_owned());
        let file = Op::Create("B/y".to_owned());
        let program = Program(vec![folder.clone(), file.clone(), Op::Sync]);
        // The file can only be left out after the folder, which comes before it.
        let shows = |program: &Program| {
            let has = |op| program.0.contains(op);
            Ok::<_, ()>((has(&Op::Sync) && (has(&file) || !has(&folder))).then_some(program.0.len()))
        };
        assert_eq!(smallest(program, 3, shows), Ok((Program(vec![Op::Sync]), 1)));
    }
}
