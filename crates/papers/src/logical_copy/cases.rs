//! Runs on a kernel: file systems, benchmarks, and their combinations.

use serde::Serialize;
use strobe_linux::command::FileSystem;
use strobe_linux::job::Step;
use strobe_types::named;

use super::COMMAND_US;

named! {
    /// A file system, and how it makes room.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
    pub(super) enum Mode {
        Ext4 => "EXT4",
        /// F2FS as it comes: it fills holes in old segments rather than clean them.
        Org => "ORG",
        /// F2FS that only writes to clean segments, and cleans by reading and writing.
        NlRw => "NL-RW",
        /// NL-RW, but cleaning by logical copy.
        NlLc => "NL-LC",
    }
}

impl Mode {
    pub(super) fn file_system(self) -> FileSystem {
        if self == Mode::Ext4 { FileSystem::Ext4 } else { FileSystem::F2fs }
    }

    pub(super) fn mount_options(self) -> &'static str {
        match self {
            Mode::Ext4 => "discard",
            Mode::Org => "mode=adaptive",
            Mode::NlRw | Mode::NlLc => "mode=lfs",
        }
    }

    /// Switches cleaning over.
    pub(super) fn switch(self) -> Option<Step> {
        let value = match self {
            Mode::Ext4 => return None,
            Mode::Org | Mode::NlRw => "0",
            Mode::NlLc => "1",
        };
        Some(Step::Set { path: "/sys/fs/f2fs/vda/gc_logical_copy".into(), value: value.into() })
    }
}

named! {
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
    pub(super) enum Program {
        Tiobench => "Tiobench",
        CopyTar => "Copy&tar",
        Varmail => "Varmail",
        Dbench => "Dbench",
    }
}

/// u, the share of the file system that is full: of what an empty F2FS offers, as `df` has it. ext4 gets the same
/// files. F2FS keeps a part of the drive to itself, a larger one the smaller the drive is.
pub(super) const FILLS: [f64; 4] = [0.5, 0.6, 0.7, 0.8];
/// The one at which the claims are judged.
pub(super) const JUDGED: f64 = 0.8;
/// Fills of a benchmark whose files are within u: at 0.5 there is little to clean.
pub(super) const FILLS_WITHIN: [f64; 3] = [0.6, 0.7, JUDGED];
/// Fills at the command time that is inferred.
pub(super) const FILLS_INFERRED: [f64; 2] = [0.6, JUDGED];

/// Files that count as u.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(super) enum Counted {
    /// The files of the ageing; those of the benchmark come on top.
    Ageing,
    /// Both: so many files of ageing fewer.
    All,
}

/// A benchmark on a file system that was aged.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct Case {
    pub(super) mode: Mode,
    pub(super) fill: f64,
    pub(super) counted: Counted,
    pub(super) program: Program,
    /// Time that the drive takes up a command in, in µs.
    pub(super) command_us: u32,
    /// Memory of the host.
    pub(super) memory_mib: u32,
}

/// Hosts by their memory, in MiB: the one of every run, then those that some are repeated on, each with a file system
/// that it has aged itself. Dirty pages are written back when they are a share of the memory, so that runs differ that
/// have nothing to clean: of these a mean is judged.
pub(super) const HOSTS_MIB: [u32; 3] = [512, 480, 544];

impl Case {
    pub(super) fn new(mode: Mode, program: Program, fill: f64) -> Self {
        let (counted, memory_mib) = (Counted::Ageing, HOSTS_MIB[0]);
        Self { mode, fill, counted, program, command_us: COMMAND_US, memory_mib }
    }

    /// This case on every host.
    pub(super) fn hosts(self) -> [Case; HOSTS_MIB.len()] {
        HOSTS_MIB.map(|memory_mib| Case { memory_mib, ..self })
    }

    /// True if it is run on every host: where the paper compares with what has no cleaning, at the u that is judged, and
    /// where the speed of cleaning with the benchmark's files within u is judged.
    fn is_repeated(&self) -> bool {
        let repeated: &[Mode] = match (self.counted, self.program) {
            (Counted::Ageing, program) if COMPARED.contains(&program) => &[Mode::Ext4, Mode::Org, Mode::NlLc],
            (Counted::All, Program::CopyTar) if self.command_us == COMMAND_US => &[Mode::NlRw, Mode::NlLc],
            _ => &[],
        };
        self.fill == JUDGED && repeated.contains(&self.mode)
    }

    /// All that are measured, those of one aged file system behind each other; without other times of a command if
    /// somebody has set that.
    pub(super) fn all(commands_us: &[u32]) -> Vec<Vec<Case>> {
        let groups = |&command_us: &u32| match command_us {
            COMMAND_US => Case::of_preset(),
            _ => Case::of_other(command_us),
        };
        let mut groups: Vec<Vec<Case>> = commands_us.iter().flat_map(groups).collect();
        for group in groups.clone() {
            let repeated: Vec<Case> = group.into_iter().filter(Case::is_repeated).collect();
            let others = HOSTS_MIB[1..].iter().filter(|_| !repeated.is_empty());
            let on = |&memory_mib: &u32| repeated.iter().map(|case| Case { memory_mib, ..*case }).collect();
            groups.extend(others.map(on));
        }
        groups
    }

    /// At the preset's time of a command.
    fn of_preset() -> Vec<Vec<Case>> {
        let mut groups = Vec::new();
        for fill in FILLS.into_iter().rev() {
            let of = |mode| Program::ALL.map(|program| Case::new(mode, program, fill)).to_vec();
            groups.extend(Mode::ALL.map(of));
        }
        for fill in FILLS_WITHIN.into_iter().rev() {
            for mode in [Mode::Org, Mode::NlRw, Mode::NlLc] {
                let within = |program| Case { counted: Counted::All, ..Case::new(mode, program, fill) };
                groups.extend([Program::CopyTar, Program::Dbench].map(|program| vec![within(program)]));
            }
        }
        groups
    }

    /// At another one.
    fn of_other(command_us: u32) -> Vec<Vec<Case>> {
        let mut groups = Vec::new();
        for fill in FILLS_INFERRED.into_iter().rev() {
            let of = |mode, program| Case { command_us, ..Case::new(mode, program, fill) };
            let programs = if fill == JUDGED { &COMPARED[..] } else { &COMPARED[1..] };
            let modes = if fill == JUDGED { &Mode::ALL[..] } else { &[Mode::Org, Mode::NlLc] };
            let all = |&mode: &Mode| programs.iter().map(|&program| of(mode, program)).collect();
            groups.extend(modes.iter().map(all));
            let within = |mode| Case { counted: Counted::All, ..of(mode, Program::CopyTar) };
            groups.extend([Mode::Org, Mode::NlLc].map(|mode| vec![within(mode)]));
        }
        groups
    }
}

/// The benchmarks of which the paper compares NL-LC with EXT4 and ORG; the second is all about the time of a command.
pub(super) const COMPARED: [Program; 2] = [Program::Tiobench, Program::CopyTar];
