//! Shell lines of `strobe crash`.

use super::crash::{crash, settings};
use super::{kernel, text};

#[test]
fn checks_and_what_runs_before_are_shell_lines() {
    let Some(kernel) = kernel() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    settings(folder.path(), true);
    let run = |before: &str, check: &str| {
        let program = ["--", "sh", "-c", "echo a > x; sync; echo saved"];
        let options = ["--cuts=2", "--keep=none", "--before", before, "--check", check];
        crash(&kernel, folder.path(), &[&options[..], &program].concat())
    };
    // Shell errors are reported before any cut.
    for (check, code) in [
        ("/bin/echo a && false", 1),
        ("./check.sh a && false", 1),
        ("/bin/true > /dev/null; exit 7", 7),
        ("/bin/echo $STROBE_ACKNOWLEDGED; exit 1", 1),
        ("/bin/sh -c \"exit 5\"", 5),
        ("no-such-program a", 127),
    ] {
        let output = run("echo 1 > config; sync", check);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{check}: {}{said}", text(&output.stdout));
        assert!(said.contains("the check fails without a power cut"), "{check}: {said}");
        assert!(code == 1 || said.contains(&format!("the check exited with {code}")), "{check}: {said}");
        assert!(!check.contains("ACKN") || said.contains("/acknowledged-uncut.txt"), "{check}: {said}");
        assert!(code != 127 || said.contains("no-such-program: not found"), "{said}");
    }
    // The same lines with success, and a `--before` line that starts with a path.
    let before = "/bin/echo one two > config; /bin/echo \"three  four\" > other && sync";
    for check in ["./check.sh a && grep -qx 'three  four' other", "/bin/grep -qx \"one two\" config"] {
        let output = run(before, check);
        assert_eq!(
            output.status.code(),
            Some(0),
            "{check}: {}{}",
            text(&output.stdout),
            text(&output.stderr)
        );
    }
    let refused = run("true", "/etc/passwd; true");
    assert_eq!(refused.status.code(), Some(2));
    assert!(text(&refused.stderr).contains("--check: /etc/passwd: this file is not executable"));
}
