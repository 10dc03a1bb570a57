//! File systems with reproducible mkfs and fsck commands.

use strobe_types::named;

use crate::job::{DEVICE, Run, Step};

named! {
    /// File system of a guest.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum FileSystem {
        /// ext4.
        Ext4 => "ext4",
        /// F2FS.
        F2fs => "f2fs",
        /// FAT, mounted as vfat.
        Vfat => "vfat",
        /// XFS.
        Xfs => "xfs",
        /// Btrfs.
        Btrfs => "btrfs",
        /// exFAT.
        Exfat => "exfat",
        /// No file system; the command uses /dev/vda directly.
        None => "none",
    }
}

impl FileSystem {
    /// Name for mount(2).
    pub fn kernel_name(self) -> Option<&'static str> {
        (self != Self::None).then(|| self.name())
    }

    /// Command that creates the file system. Its identity depends only on `seed`.
    pub fn mkfs(self, seed: u64, options: &[String]) -> Vec<String> {
        let mut options = options.to_vec();
        let uuid = format!("57b0be00-0000-4000-8000-{:012x}", seed & 0xffff_ffff_ffff);
        let own: Vec<String> = match self {
            Self::Ext4 => {
                let mut extended = format!("hash_seed={uuid},lazy_itable_init=0,lazy_journal_init=0");
                // mkfs uses only the last -E.
                if let Some(at) = options.iter().position(|option| option == "-E")
                    && at + 1 < options.len()
                {
                    extended = format!("{extended},{}", options.remove(at + 1));
                    options.remove(at);
                }
                ["mkfs.ext4", "-q", "-F", "-U", &uuid, "-E", &extended].map(str::to_owned).into()
            }
            Self::F2fs => ["mkfs.f2fs", "-f", "-U", &uuid].map(str::to_owned).into(),
            Self::Vfat => {
                let serial = format!("{:08x}", seed as u32);
                ["mkfs.vfat", "-i", &serial].map(str::to_owned).into()
            }
            Self::Xfs => ["mkfs.xfs", "-q", "-f", "-m", &format!("uuid={uuid}")].map(str::to_owned).into(),
            Self::Btrfs => ["mkfs.btrfs", "-q", "-f", "-U", &uuid].map(str::to_owned).into(),
            // The serial number comes from the guest's clock, as no option for it exists in all versions.
            Self::Exfat => vec!["mkfs.exfat".to_owned()],
            Self::None => Vec::new(),
        };
        own.into_iter().chain(options).chain([DEVICE.to_owned()]).collect()
    }

    pub(super) fn without_discard(self, options: &[String]) -> Vec<String> {
        let first: &[&str] = match self {
            Self::Ext4 => return with_extended(options, "nodiscard"),
            Self::F2fs => &["-t", "0"],
            Self::Xfs | Self::Btrfs => &["-K"],
            Self::Vfat | Self::Exfat | Self::None => &[],
        };
        first.iter().map(|&word| word.to_owned()).chain(options.iter().cloned()).collect()
    }

    /// Repair steps after a power cut, before the mount. Only file systems without a journal need them.
    pub fn repair(self) -> Vec<Step> {
        let run = |tool: &str, option: &str, allowed: &[i32]| {
            let argv = [tool, option, DEVICE].map(str::to_owned).into();
            Step::Run(Run { argv, quiet: true, allowed: allowed.into(), folder: String::new() })
        };
        match self {
            Self::Vfat => vec![run("fsck.fat", "-a", &[0, 1]), run("fsck.fat", "-n", &[0])],
            Self::Exfat => vec![run("fsck.exfat", "-y", &[0, 1]), run("fsck.exfat", "-n", &[0])],
            _ => Vec::new(),
        }
    }

    /// Command that checks the file system without changes.
    pub fn fsck(self) -> Option<Vec<String>> {
        let command: &[&str] = match self {
            Self::Ext4 => &["e2fsck", "-f", "-n", DEVICE],
            Self::F2fs => &["fsck.f2fs", "--dry-run", DEVICE],
            Self::Vfat => &["fsck.fat", "-n", DEVICE],
            Self::Xfs => &["xfs_repair", "-n", DEVICE],
            Self::Btrfs => &["btrfs", "check", "--readonly", DEVICE],
            Self::Exfat => &["fsck.exfat", "-n", DEVICE],
            Self::None => return None,
        };
        Some(command.iter().map(|word| (*word).to_owned()).collect())
    }
}

pub(super) fn with_extended(options: &[String], more: &str) -> Vec<String> {
    let mut options = options.to_vec();
    match options.iter().position(|option| option == "-E").and_then(|at| options.get_mut(at + 1)) {
        Some(given) => *given = format!("{more},{given}"),
        None => options.extend(["-E".to_owned(), more.to_owned()]),
    }
    options
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extended_options_add_to_those_that_make_it_repeatable() {
        let options = ["-b", "4096", "-E", "nodiscard"].map(str::to_owned);
        let command = FileSystem::Ext4.mkfs(1, &options).join(" ");
        assert!(command.contains("lazy_journal_init=0,nodiscard -b 4096 /dev/vda"), "{command}");
        assert_eq!(command.matches("-E").count(), 1);
    }

    #[test]
    fn mkfs_leaves_an_aged_drive_as_it_is_unless_it_is_told_otherwise() {
        let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        let without_discard = |file_system: FileSystem, options| file_system.without_discard(&words(options));
        assert_eq!(without_discard(FileSystem::Ext4, "-E discard"), words("-E nodiscard,discard"));
        assert_eq!(without_discard(FileSystem::F2fs, "-t 1"), words("-t 0 -t 1"));
        assert_eq!(without_discard(FileSystem::Xfs, ""), words("-K"));
        assert_eq!(without_discard(FileSystem::Vfat, "-S 4096"), words("-S 4096"));
    }

    #[test]
    fn what_large_drives_need_comes_before_what_the_user_says() {
        let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(with_extended(&[], "a=1"), words("-E a=1"));
        assert_eq!(with_extended(&words("-b 4096 -E a=0,c"), "a=1"), words("-b 4096 -E a=1,a=0,c"));
        assert_eq!(with_extended(&words("-E"), "a=1"), words("-E -E a=1"), "mkfs will say what is wrong");
    }
}
