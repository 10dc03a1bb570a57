//! Types the gallery of findings (docs/crash-gallery.md). The first command of a block finds damage; the
//! last, its control, finds none. Findings that need Python packages are left to scripts/gallery.sh.

use std::fs;
use std::path::Path;
use std::process::Command;

use strobe_linux::kernel;

use super::{has, kernel as installed, text};

fn block(part: &str) -> &str {
    part.split("```sh\n").nth(1).and_then(|rest| rest.split("```").next()).expect("what to type")
}

fn damage(output: &str) -> Vec<u64> {
    let heads = output.lines().filter(|line| line.contains(" flash operations of "));
    let before = |line: &str, word: &str| {
        let rest = line.split(word).next().unwrap_or_default();
        rest.rsplit(' ').next().and_then(|number| number.parse::<u64>().ok()).expect("a number")
    };
    heads
        .map(|line| before(line, " lost") + before(line, " corrupt") + before(line, " do not mount"))
        .collect()
}

#[test]
fn findings_of_the_gallery_are_found_and_their_controls_pass() {
    let Some(path) = installed() else { return };
    if !["python3", "git"].into_iter().all(has) {
        return;
    }
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/crash-gallery.md");
    let page = fs::read_to_string(page).expect("the page");
    let folder = tempfile::tempdir().expect("a folder");
    fs::create_dir(folder.path().join("bin")).expect("a folder");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_strobe"), folder.path().join("bin/strobe"))
        .expect("a link");
    let search =
        format!("{}:{}", folder.path().join("bin").display(), std::env::var("PATH").unwrap_or_default());
    let typed = |script: &str| {
        let mut command = Command::new("sh");
        command
            .args(["-c", script])
            .current_dir(folder.path())
            .env("PATH", &search)
            .env("STROBE_KERNEL", &path);
        command.output().expect("a shell")
    };
    let mut parts = page.split("\n## ");
    let first = typed(block(parts.next().expect("a beginning")));
    assert!(first.status.success(), "{}", text(&first.stderr));
    let built = kernel::inspect(&path).expect("a kernel");
    let can_use = |name: &str, mkfs: &str| built.has_file_system(name) && has(mkfs);
    let (has_btrfs, has_xfs) = (can_use("btrfs", "mkfs.btrfs"), can_use("xfs", "mkfs.xfs"));
    let mut tried = 0;
    for part in parts.filter(|part| !block(part).contains("$PY")) {
        let title = part.lines().next().unwrap_or_default();
        if title.contains("Btrfs") && !has_btrfs || title.contains("XFS") && !has_xfs {
            continue;
        }
        let output = typed(block(part));
        let said = text(&output.stdout) + &text(&output.stderr);
        let damage = damage(&said);
        assert!(damage.len() >= 2 && damage[0] > 0, "{title}: {damage:?}: {said}");
        assert!(damage[1..].iter().all(|&wrong| wrong == 0), "{title}, control: {damage:?}: {said}");
        tried += 1;
    }
    assert!(tried >= 5, "{tried}");
}
