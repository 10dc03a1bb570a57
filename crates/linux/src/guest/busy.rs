use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// Describes the processes that use files below `mount`, with a cure: "postgres (4 processes) still runs: …".
///
/// `None` if /proc shows no such process.
pub(super) fn users_of(mount: &Path) -> Option<String> {
    let own = std::process::id().to_string();
    let mut names: BTreeMap<String, usize> = BTreeMap::new();
    for process in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let id = process.file_name().to_string_lossy().into_owned();
        let is_process = id.bytes().all(|byte| byte.is_ascii_digit());
        if is_process && id != own && uses(&process.path(), mount) {
            let name = fs::read_to_string(process.path().join("comm")).unwrap_or_default();
            *names.entry(name.trim_end().to_owned()).or_default() += 1;
        }
    }
    let one = |(name, count): (String, usize)| match count {
        1 => name,
        _ => format!("{name} ({count} processes)"),
    };
    let verb = if names.values().sum::<usize>() == 1 { "runs: stop it" } else { "run: stop them" };
    let all: Vec<String> = names.into_iter().map(one).collect();
    (!all.is_empty()).then(|| format!("{} still {verb} at the end of the program", all.join(", ")))
}

fn uses(process: &Path, mount: &Path) -> bool {
    let is_below = |link: &Path| fs::read_link(link).is_ok_and(|target| target.starts_with(mount));
    let open = fs::read_dir(process.join("fd")).into_iter().flatten().flatten();
    ["cwd", "root", "exe"].iter().any(|link| is_below(&process.join(link)))
        || open.map(|entry| entry.path()).any(|link| is_below(&link))
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn processes_that_use_a_folder_are_named_with_the_cure() {
        let folder = tempfile::tempdir().expect("a folder");
        assert_eq!(users_of(folder.path()), None);
        let start = |program: &str| {
            let mut command = Command::new(program);
            command.current_dir(folder.path()).stdin(Stdio::piped()).stdout(Stdio::null());
            command.spawn().expect("a process")
        };
        let mut children = vec![start("cat")];
        let one = users_of(folder.path());
        children.extend([start("cat"), start("tail")]);
        let three = users_of(folder.path());
        for child in &mut children {
            child.kill().expect("ours");
            child.wait().expect("ended");
        }
        assert_eq!(one.as_deref(), Some("cat still runs: stop it at the end of the program"));
        assert_eq!(
            three.as_deref(),
            Some("cat (2 processes), tail still run: stop them at the end of the program")
        );
    }
}
