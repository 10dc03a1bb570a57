//! Runs on a kernel: file systems, benchmarks and their combinations.

use serde::Serialize;
use strobe_linux::command::FileSystem;
use strobe_linux::job::Step;
use strobe_types::named;

use super::COMMAND_US;

named! {
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
    pub(super) enum Mode {
        Ext4 => "EXT4",
        /// Stock F2FS: fills holes in old segments and does not clean them.
        Org => "ORG",
        /// F2FS that writes only to clean segments, and cleans by reads and writes.
        NlRw => "NL-RW",
        /// NL-RW with cleaning by logical copy.
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

/// Values of u, the share of the capacity of an empty F2FS (by `df`) in use. ext4 gets the same files.
///
/// F2FS reserves part of the drive, a larger share on a smaller drive.
pub(super) const FILLS: [f64; 4] = [0.5, 0.6, 0.7, 0.8];
pub(super) const JUDGED: f64 = 0.8;
/// Values of u for benchmarks whose files count towards u. At 0.5 there is little to clean.
pub(super) const FILLS_WITHIN: [f64; 3] = [0.6, 0.7, JUDGED];
pub(super) const FILLS_INFERRED: [f64; 2] = [0.6, JUDGED];

/// Files that count towards u.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(super) enum Counted {
    /// Files of the ageing only; the benchmark's files are extra.
    Ageing,
    /// All files: the ageing writes less, by the size of the benchmark's files.
    All,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct Case {
    pub(super) mode: Mode,
    pub(super) fill: f64,
    pub(super) counted: Counted,
    pub(super) program: Program,
    pub(super) command_us: u32,
    pub(super) memory_mib: u32,
}

/// Memory of the hosts in MiB: the default, then those of repeated runs, each with its own aged file system.
///
/// Write-back of dirty pages starts at a share of the memory. Runs without cleaning vary with the memory, so
/// their mean is judged.
pub(super) const HOSTS_MIB: [u32; 3] = [512, 480, 544];

impl Case {
    pub(super) fn new(mode: Mode, program: Program, fill: f64) -> Self {
        let (counted, memory_mib) = (Counted::Ageing, HOSTS_MIB[0]);
        Self { mode, fill, counted, program, command_us: COMMAND_US, memory_mib }
    }

    pub(super) fn hosts(self) -> [Case; HOSTS_MIB.len()] {
        HOSTS_MIB.map(|memory_mib| Case { memory_mib, ..self })
    }

    /// True if the case runs on every host.
    fn is_repeated(&self) -> bool {
        // Judged comparisons with modes without cleaning, and the judged speed of cleaning with the
        // benchmark's files within u.
        let repeated: &[Mode] = match (self.counted, self.program) {
            (Counted::Ageing, program) if COMPARED.contains(&program) => &[Mode::Ext4, Mode::Org, Mode::NlLc],
            (Counted::All, Program::CopyTar) if self.command_us == COMMAND_US => &[Mode::NlRw, Mode::NlLc],
            _ => &[],
        };
        self.fill == JUDGED && repeated.contains(&self.mode)
    }

    /// All cases, grouped by the aged file system that they share.
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

/// Benchmarks used to compare NL-LC with EXT4 and ORG. Copy&tar depends on the command time above all.
pub(super) const COMPARED: [Program; 2] = [Program::Tiobench, Program::CopyTar];
