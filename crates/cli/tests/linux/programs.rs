//! Programs of the host run in the guest as they do outside, without changing the host.

use std::fs;
use std::path::Path;
use std::process::Command;

use strobe_testing::{Need, found};

use super::{has, kernel, result, strobe, text};

fn thrice(programs: &[&str], options: &[&str], script: &str) -> Option<String> {
    let kernel = kernel()?;
    if !programs.iter().all(|program| has(program)) {
        return None;
    }
    // Outside the working folder: Python lists the folder of its script.
    let results = tempfile::tempdir().expect("a folder");
    let trace = results.path().join("trace.strobe");
    let trace = trace.to_str().expect("UTF-8");
    let arguments = [&["--trace", trace], options, &["--", "bash", "-ec", script]].concat();
    let mut first = None;
    for time in 0..3 {
        let (value, printed) = result(&kernel, &arguments);
        let root = &value["guest"]["root"];
        assert_eq!(
            (root["kind"].as_str(), root["repeatable"].as_bool()),
            (Some("host"), Some(true)),
            "{root}"
        );
        let this = (text(&printed), fs::read(trace).expect("a trace"));
        assert!(this.1.len() > 1000, "hardly any requests");
        let first = first.get_or_insert_with(|| this.clone());
        assert!(*first == this, "{script}: run {time} differs");
    }
    first.map(|(printed, _)| printed)
}

fn git(folder: &Path, arguments: &[&str]) {
    let mut command = Command::new("git");
    let output = command.arg("-C").arg(folder).args(arguments).output().expect("git");
    assert!(output.status.success(), "{}", text(&output.stderr));
}

#[test]
fn git_clones_a_repository_of_the_host_and_checks_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let repository = folder.path().join("repository");
    if !has("git") {
        return;
    }
    fs::create_dir(&repository).expect("a folder");
    git(&repository, &["init", "-q"]);
    for at in 0..30 {
        fs::write(repository.join(format!("file-{at}")), format!("{at}\n").repeat(500 * at))
            .expect("written");
        git(&repository, &["add", "."]);
        git(&repository, &["-c", "user.name=A", "-c", "user.email=a@b", "commit", "-q", "-m", "more"]);
    }
    let script = format!(
        "git clone -q {} copy; cd copy; git fsck --no-progress; git log --oneline | wc -l; cksum *",
        repository.display()
    );
    let Some(printed) = thrice(&["git"], &[], &script) else { return };
    assert!(printed.contains("\n30\n"), "{printed}");
    assert_eq!(printed.matches(" file-").count(), 30, "{printed}");
}

/// The project's last commits, or one of its sources if there are no commits.
#[test]
fn git_clones_this_repository_and_checks_it() {
    let folder = tempfile::tempdir().expect("a folder");
    if !has("git") {
        return;
    }
    let top = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the sources");
    let top = top.to_str().expect("UTF-8");
    if top_of_repository(top) {
        let url = format!("file://{top}");
        git(folder.path(), &["clone", "-q", "--bare", "--depth", "5", &url, "repository"]);
    } else {
        git(folder.path(), &["init", "-q", "--bare", "repository"]);
        let add = ["--git-dir", "repository", "--work-tree", top, "add", "crates", "docs", "Cargo.toml"];
        git(folder.path(), &add);
        let commit = ["-c", "user.name=A", "-c", "user.email=a@b", "commit", "-q", "-m", "all"];
        git(folder.path(), &[&add[..4], &commit].concat());
    }
    let script = format!(
        "git clone -q {} copy; cd copy; git fsck --no-progress --full; git status --short; test -f Cargo.toml; \
         git ls-files | wc -l",
        folder.path().join("repository").display()
    );
    let Some(printed) = thrice(&["git"], &[], &script) else { return };
    let files = printed.lines().last().and_then(|line| line.parse::<u32>().ok());
    assert!(files > Some(100), "{printed}");
}

fn top_of_repository(folder: &str) -> bool {
    let output =
        Command::new("git").args(["-C", folder, "rev-parse", "--show-toplevel"]).output().expect("git");
    output.status.success() && text(&output.stdout).trim() == folder
}

#[test]
fn postgres_serves_pgbench_for_ten_seconds() {
    let folders = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut programs: Vec<_> = folders.map(|version| version.path().join("bin")).collect();
    programs.retain(|programs| programs.join("initdb").is_file() && programs.join("pgbench").is_file());
    programs.sort();
    let Some(programs) = found(Need::Kernel, programs.pop().ok_or("postgresql is not installed")) else {
        return;
    };
    // The server must not run as root. Its cluster is created before the measured window.
    let programs = programs.display();
    let script = format!(
        "mkdir db; chown nobody db; cd db; as() {{ runuser -u nobody -- \"$@\"; }}; \
         as {programs}/initdb -D data -A trust -E UTF8 --locale=C > /dev/null; \
         as {programs}/pg_ctl -D data -w -s -l log -o \"-k $PWD -c listen_addresses=''\" start; \
         as {programs}/pgbench -h $PWD -i -s 1 -q postgres 2> /dev/null; \
         as {programs}/pgbench -h $PWD -T 10 -c 2 -j 1 postgres; as {programs}/pg_ctl -D data -w -s stop"
    );
    let Some(printed) = thrice(&["runuser"], &[], &script) else { return };
    let line =
        printed.lines().find_map(|line| line.strip_prefix("number of transactions actually processed: "));
    let transactions: u64 = line.and_then(|count| count.parse().ok()).expect("pgbench says how many");
    assert!(transactions > 500, "{printed}");
    assert!(printed.contains("number of failed transactions: 0 "), "{printed}");
}

#[test]
fn a_program_is_compiled_and_runs() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(
        folder.path().join("a.c"),
        "#include <stdio.h>\nint main(void) { puts(\"compiled\"); return 0; }\n",
    )
    .expect("written");
    let put = folder.path().join("a.c");
    let options = ["--put", put.to_str().expect("UTF-8")];
    let Some(printed) = thrice(&["cc"], &options, "cc -O1 -o a a.c; ./a") else { return };
    assert!(printed.contains("compiled\n"), "{printed}");
}

#[test]
fn python_writes_a_database() {
    let folder = tempfile::tempdir().expect("a folder");
    let tool = folder.path().join("tool.py");
    let source = "import sqlite3\nbase = sqlite3.connect('a.db')\nbase.execute('create table t(x)')\n\
                  base.executemany('insert into t values(?)', ((x,) for x in range(2000)))\nbase.commit()\n\
                  print('sum', base.execute('select sum(x) from t').fetchone()[0])\n";
    fs::write(&tool, source).expect("written");
    let script = format!("python3 {}", tool.display());
    let Some(printed) = thrice(&["python3"], &["--fs", "vfat"], &script) else { return };
    assert!(printed.contains("sum 1999000\n"), "{printed}");
}

#[test]
fn the_environment_is_the_users_and_the_hosts_files_stay_as_they_are() {
    let Some(kernel) = kernel() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("file");
    fs::write(&file, "before\n").expect("written");
    let path = folder.path().display();
    let script = format!(
        "cd {path}; cat file; echo after > file; cat file; rm file; touch new; ls; echo $PATH; cat <(echo piped); \
         cd /; rm -rf {path}; test ! -e {path}; test ! -e /dev/sda; ls /proc/1 | grep -c ^exe$"
    );
    let (value, printed) = result(&kernel, &["--", "bash", "-ec", &script]);
    let printed = text(&printed);
    assert!(printed.contains("before\nafter\nnew\n"), "{printed}");
    assert!(printed.contains(&std::env::var("PATH").expect("set")), "{printed}");
    assert!(printed.ends_with("piped\n1\n"), "{printed}");
    assert_eq!(fs::read_to_string(&file).expect("still there"), "before\n");
    assert_eq!(fs::read_dir(folder.path()).expect("there").count(), 1);
    fs::write(&file, "other\n").expect("written");
    let (other, _) = result(&kernel, &["--", "bash", "-ec", &script]);
    assert_ne!(value["guest"]["root"]["digest"], other["guest"]["root"]["digest"]);
}

#[test]
fn a_guest_without_memory_says_so() {
    let Some(kernel) = kernel() else { return };
    let hungry = ["--memory", "128", "--", "sh", "-c", "x=x; while :; do x=$x$x; done"];
    let output = strobe(&kernel, &hungry);
    assert_ne!(output.status.code(), Some(0));
    assert!(text(&output.stdout).contains("--memory above 128"), "{}", text(&output.stdout));
    if !has("python3") {
        return;
    }
    let refused = ["--memory", "128", "--", "python3", "-c", "bytearray(1 << 30)"];
    let output = strobe(&kernel, &refused);
    assert_ne!(output.status.code(), Some(0));
    let said = text(&output.stderr);
    assert!(said.contains("MemoryError") && said.contains("--memory above 128"), "{said}");
}

/// The guest has its own /dev; files of the host's /dev/shm are usable with --put.
#[test]
fn a_program_in_a_folder_that_the_guest_hides_is_put_on_the_drive() {
    let Some(kernel) = kernel() else { return };
    let Some(folder) = found(Need::Kernel, tempfile::tempdir_in("/dev/shm")) else { return };
    let program = folder.path().join("hello");
    fs::write(&program, "#!/bin/sh\ncat ${0%/*}/word\n").expect("written");
    fs::write(folder.path().join("word"), "well\n").expect("written");
    let made = Command::new("chmod").arg("+x").arg(&program).status().expect("chmod");
    assert!(made.success());
    let program = program.to_str().expect("UTF-8");
    let output = strobe(&kernel, &["--", program]);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains(&format!("--put {program} copies it to the drive")), "{said}");
    // Follows the message, and copies a whole folder as well.
    let put = folder.path().to_str().expect("UTF-8");
    let name = folder.path().file_name().and_then(|name| name.to_str()).expect("a name");
    let run = format!("cmp hello {name}/hello; ls /dev/shm | wc -l; ./{name}/hello");
    let output = strobe(&kernel, &["-q", "--put", program, "--put", put, "--", "sh", "-c", &run]);
    assert_eq!(text(&output.stdout), "0\nwell\n", "{}", text(&output.stderr));
}

#[test]
fn what_cannot_be_is_refused_with_the_cure() {
    let Some(kernel) = kernel() else { return };
    for (arguments, cure) in [
        (&["--root", "host", "--with", "ls"][..], "needs --root packed"),
        (&["--put", "no-such-file"], "no such file"),
        (&["--put", "/", "--fs", "none"], "needs a file system"),
        (&["--put", "/etc", "--root", "packed"], "needs --root host"),
        (&["--put", "/proc/self"], "no files to copy"),
    ] {
        let output = strobe(&kernel, &[arguments, &["--", "true"]].concat());
        assert_eq!(output.status.code(), Some(2));
        assert!(text(&output.stderr).contains(cure), "{}", text(&output.stderr));
    }
    let output = strobe(&kernel, &["--dir", "nowhere", "--", "true"]);
    assert!(text(&output.stderr).contains("no folder /mnt/nowhere"), "{}", text(&output.stderr));
}
