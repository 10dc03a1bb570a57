//! Random programs of file operations, and the guarantees of a file system for them after a power cut.
//!
//! 1. [`Program::random`] chooses operations that can succeed one after the other.
//! 2. [`Program::script`] returns the shell script, which prints the number of each completed operation.
//! 3. [`Program::broken_promise`] compares the state after a cut with the guarantees at that time.
//!
//! The guarantees follow CrashMonkey (Mohan et al., OSDI 2018). An fsync of a file covers its data and the
//! synced path. An fsync of a folder covers its names; sync covers everything. An fdatasync covers data, but
//! no rename. An fsync of an unchanged file does not cover the rename of a folder above. Names and bytes that
//! a later operation changes are not guaranteed, even if that operation is incomplete.

mod model;
mod promises;

use std::fmt::Write as _;

use serde::{Deserialize, Serialize};
use strobe_types::Prng;

pub use promises::{Entry, Tree};

use model::Model;

/// File operation. Paths are relative to the root of the file system.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Op {
    /// Creates an empty file.
    Create(String),
    /// Creates a folder.
    Mkdir(String),
    /// Writes `bytes` copies of `fill` into a file at `at`.
    Write {
        /// Path of the file.
        path: String,
        /// Offset in bytes.
        at: u64,
        /// Number of bytes.
        bytes: u64,
        /// Byte to write, a letter.
        fill: char,
    },
    /// Sets the length of a file.
    Truncate {
        /// Path of the file.
        path: String,
        /// New length in bytes.
        bytes: u64,
    },
    /// Renames a file or a folder. Replaces an existing file.
    Rename(String, String),
    /// Creates a further link to a file.
    Link(String, String),
    /// Removes a name of a file.
    Unlink(String),
    /// Makes a file, or the names of a folder, durable.
    Fsync(String),
    /// Makes the data of a file durable.
    Fdatasync(String),
    /// Makes everything durable.
    Sync,
}

/// Names of files and folders, few to make operations collide.
const FILES: [&str; 2] = ["x", "y"];
const FOLDERS: [&str; 3] = ["A", "B", "C"];
/// Durable files and folders before a program starts.
const BEFORE: &str =
    "mkdir A B; head -c 6000 /dev/zero | tr '\\0' p > A/x; head -c 6000 /dev/zero | tr '\\0' q > y; sync";
/// Lengths and offsets: within a block, at its end, over several.
const SIZES: [u64; 5] = [100, 3000, 4096, 9000, 20_000];

/// Sequence of operations.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Program(pub Vec<Op>);

impl Program {
    /// Shell commands that create the initial files.
    pub fn before() -> &'static str {
        BEFORE
    }

    /// Generates a program of `length` operations, followed by a sync operation.
    pub fn random(seed: u64, number: u64, length: usize) -> Self {
        let mut chance = Prng::derive(seed ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15), "a program");
        let (mut model, mut ops) = (Model::new(), Vec::new());
        while ops.len() < length {
            let op = any_op(&mut chance, &model);
            if model.apply(&op) {
                ops.push(op);
            }
        }
        loop {
            let last = any_sync(&mut chance, &model);
            if model.apply(&last) {
                ops.push(last);
                return Self(ops);
            }
        }
    }

    /// True if every operation can succeed.
    pub fn is_possible(&self) -> bool {
        let mut model = Model::new();
        self.0.iter().all(|op| model.apply(op))
    }

    /// Returns the program without operation `at`.
    #[must_use]
    pub fn without(&self, at: usize) -> Self {
        let rest = |(number, op): (usize, &Op)| (number != at).then(|| op.clone());
        Self(self.0.iter().enumerate().filter_map(rest).collect())
    }

    /// Returns a shell script that prints a line after each completed operation.
    pub fn script(&self) -> String {
        let mut out = "set -e\n".to_owned();
        for (op, number) in self.0.iter().zip(1..) {
            let _ = writeln!(out, "{}; echo {number}", command(op));
        }
        out
    }

    /// Returns the first guarantee violated by `tree` after a cut with `done` completed operations.
    ///
    /// The next operation may have been executed in part.
    pub fn broken_promise(&self, done: usize, tree: &Tree) -> Option<String> {
        promises::broken(&self.0, done, tree)
    }
}

fn command(op: &Op) -> String {
    match op {
        Op::Create(path) => format!(": > {path}"),
        Op::Mkdir(path) => format!("mkdir {path}"),
        Op::Write { path, at, bytes, fill } => format!(
            "head -c {bytes} /dev/zero | tr '\\0' {fill} | dd of={path} bs=1M iflag=fullblock seek={at} oflag=seek_bytes \
             conv=notrunc status=none"
        ),
        Op::Truncate { path, bytes } => format!("truncate -s {bytes} {path}"),
        Op::Rename(from, to) => format!("mv -T {from} {to}"),
        Op::Link(from, to) => format!("ln {from} {to}"),
        Op::Unlink(path) => format!("rm {path}"),
        Op::Fsync(path) => format!("sync {path}"),
        Op::Fdatasync(path) => format!("sync -d {path}"),
        Op::Sync => "sync".to_owned(),
    }
}

fn one_of<'a, T: ?Sized>(chance: &mut Prng, among: &[&'a T]) -> &'a T {
    among[chance.below(among.len() as u32) as usize]
}

fn any_path(chance: &mut Prng) -> String {
    let file = one_of(chance, &FILES);
    match chance.below(4) {
        0 => file.to_owned(),
        at => format!("{}/{file}", FOLDERS[at as usize - 1]),
    }
}

fn any_file(chance: &mut Prng, model: &Model) -> String {
    let files: Vec<&str> = model.files().collect();
    if files.is_empty() { any_path(chance) } else { one_of(chance, &files).to_owned() }
}

fn any_sync(chance: &mut Prng, model: &Model) -> Op {
    match chance.below(8) {
        0..=3 => Op::Fsync(any_file(chance, model)),
        4 => Op::Fdatasync(any_file(chance, model)),
        5 => Op::Fsync(".".to_owned()),
        6 => Op::Fsync(one_of(chance, &FOLDERS).to_owned()),
        _ => Op::Sync,
    }
}

fn any_op(chance: &mut Prng, model: &Model) -> Op {
    let size = |chance: &mut Prng| SIZES[chance.below(SIZES.len() as u32) as usize];
    let fill = |chance: &mut Prng| char::from(b'a' + chance.below(15) as u8);
    match chance.below(20) {
        0 | 1 => Op::Create(any_path(chance)),
        2 => Op::Mkdir("C".to_owned()),
        3..=6 => {
            let path = any_file(chance, model);
            let at = if chance.below(2) == 0 { model.length(&path) } else { size(chance) };
            Op::Write { path, at, bytes: size(chance), fill: fill(chance) }
        }
        7 | 8 => Op::Truncate { path: any_file(chance, model), bytes: size(chance) },
        9..=11 => Op::Rename(any_file(chance, model), any_path(chance)),
        12 => Op::Rename(one_of(chance, &FOLDERS).to_owned(), one_of(chance, &FOLDERS).to_owned()),
        13 | 14 => Op::Link(any_file(chance, model), any_path(chance)),
        15 | 16 => Op::Unlink(any_file(chance, model)),
        _ => any_sync(chance, model),
    }
}

#[cfg(test)]
mod tests;
