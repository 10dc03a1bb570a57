//! Shell lines of `--before` and `--check`.
//!
//! The guest's shell reads the line. Its working folder is the drive's file system, without the user's
//! programs. A line that starts with a program of this machine is therefore changed first:
//!
//! 1. The first command ends at an operator; its words are unquoted.
//! 2. The command is changed only if its program, or the script of an interpreter, is a path with a slash to
//!    a file of this machine.
//! 3. The program must be visible and executable in a guest. It and the script become absolute.
//!
//! Arguments stay as they are: `d/f` is the file on the drive, even if this machine has a file of that name. A check
//! of the wrong file would call lost data fine.
//!
//! Example: `./check.sh ./a && ./b` becomes `/home/me/check.sh ./a && ./b`.

use std::ops::Range;
use std::path::Path;

use anyhow::anyhow;
use strobe_linux::{LinuxError, command};

use super::super::Failure;

/// Interpreters, without version digits: their first argument may be a script.
const INTERPRETERS: [&str; 6] = ["python", "sh", "bash", "dash", "perl", "ruby"];
const PLAIN: &str = "/._-+,:@%=";

/// `option` is named in errors.
pub(in super::super) fn shell_line(option: &str, text: &str, shell: &[&str]) -> Result<Vec<String>, Failure> {
    let wrong = |reason: String| Failure::Request(anyhow!("{option}: {reason}"));
    if text.trim().is_empty() {
        return Err(wrong("the command is empty".to_owned()));
    }
    let found = |path: Result<String, LinuxError>| path.map_err(|error| wrong(error.to_string()));
    let mut line = text.to_owned();
    let words = words(text);
    // From the last word: replacing it leaves the ranges of the others valid.
    for (at, word) in words[..words_from_here(&words)].iter().enumerate().rev() {
        let Some(name) = word.text.as_deref().filter(|name| name.contains('/')) else { continue };
        let path = match at {
            0 => found(command::program_here(name))?,
            _ => found(command::file_here(name))?,
        };
        if path != name {
            line.replace_range(word.range.clone(), &quoted(&path));
        }
    }
    let mut words = shell.iter().map(|word| (*word).to_owned()).chain([line]).collect::<Vec<_>>();
    words[0] = found(command::program_here(&words[0]))?;
    Ok(words)
}

/// Number of words at the start of the line that are files of this machine: the program, and the script of an
/// interpreter.
fn words_from_here(words: &[Word]) -> usize {
    let mut names = words.iter().map(|word| word.text.as_deref());
    let is_file = |name: &str| name.contains('/') && Path::new(name).is_file();
    let Some(Some(program)) = names.next() else { return 0 };
    let name = program.rsplit('/').next().unwrap_or(program);
    let interpreter = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    let is_script = INTERPRETERS.contains(&interpreter) && names.next().flatten().is_some_and(is_file);
    if is_script { 2 } else { usize::from(is_file(program)) }
}

fn quoted(path: &str) -> String {
    if path.chars().all(|c| c.is_alphanumeric() || PLAIN.contains(c)) {
        path.to_owned()
    } else {
        format!("'{}'", path.replace('\'', r"'\''"))
    }
}

struct Word {
    range: Range<usize>,
    /// `None` if only the shell can expand it.
    text: Option<String>,
}

/// Stops at the first word that needs a shell.
fn words(line: &str) -> Vec<Word> {
    let mut words = Vec::new();
    let mut rest = line.char_indices().peekable();
    loop {
        while rest.next_if(|(_, letter)| [' ', '\t'].contains(letter)).is_some() {}
        let Some(&(start, first)) = rest.peek() else { return words };
        if first == '#' {
            return words;
        }
        let (mut text, mut quote, mut is_literal) = (String::new(), None, true);
        // An operator ends the word and the command.
        let end = loop {
            let Some(&(at, letter)) = rest.peek() else { break line.len() };
            if quote.is_none() && " \t\n;&|<>()".contains(letter) {
                break at;
            }
            rest.next();
            match (quote, letter) {
                (Some(open), _) if letter == open => quote = None,
                (Some('\''), _) => text.push(letter),
                // A substitution contains another line.
                (_, '`') => return words,
                (_, '$') if rest.next_if(|(_, next)| ['(', '{'].contains(next)).is_some() => return words,
                (_, '$') => is_literal = false,
                (_, '\\') => text.extend(rest.next().map(|(_, letter)| letter)),
                (Some(_), _) => text.push(letter),
                (None, '\'' | '"') => quote = Some(letter),
                (None, _) => {
                    is_literal &= !"*?[{~".contains(letter);
                    text.push(letter);
                }
            }
        };
        if end == start || quote.is_some() {
            return words;
        }
        words.push(Word { range: start..end, text: is_literal.then_some(text) });
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;
    use std::process::Command;

    use super::*;

    const SHELL: [&str; 2] = ["sh", "-c"];

    fn line(text: &str) -> String {
        shell_line("--check", text, &SHELL).unwrap_or_else(|_| panic!("{text}")).remove(2)
    }

    fn refusal(text: &str) -> String {
        match shell_line("--check", text, &SHELL) {
            Err(Failure::Request(error)) => error.to_string(),
            _ => panic!("{text}"),
        }
    }

    #[test]
    fn every_line_ends_as_a_shell_says() {
        let folder = tempfile::tempdir().expect("a folder");
        let script = folder.path().join("my.sh");
        // Without an interpreter line.
        fs::write(&script, "echo $# $1\n").expect("written");
        fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).expect("set");
        let script = script.display();
        for text in [
            "/bin/echo a && false",
            &format!("{script} a && false"),
            &format!("{script} 'a  b' \"c d\""),
            &format!("sh {script} $HOME; exit 3"),
            "/bin/true > /dev/null; exit 1",
            "/bin/echo $HOME; exit 1",
            "/bin/sh -c \"exit 4\"",
            "/bin/echo \"a  b\" 'c;d' e\\ f",
            "/bin/echo a # b",
            "/bin/echo *",
            "/bin/false || /bin/echo b",
            "/bin/echo a | grep -q b",
            "! /bin/false",
            "HOME=/x /bin/sh -c 'echo $HOME'",
            "echo a && false",
            "if /bin/true; then exit 5; fi",
            "/bin/echo a\n/bin/false",
        ] {
            let words = shell_line("--check", text, &SHELL).unwrap_or_else(|_| panic!("{text}"));
            let run = |words: &[&str]| {
                let done = Command::new(words[0]).args(&words[1..]).output().expect("run");
                (done.status.code(), done.stdout)
            };
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            assert_eq!(run(&words), run(&["sh", "-c", text]), "{text}");
        }
    }

    /// The working folder of this test is its crate.
    #[test]
    fn the_program_of_a_line_is_found_from_here_and_all_else_is_the_guests() {
        let here = |path: &str| std::path::absolute(path).expect("a path").display().to_string();
        let script = here("build.rs");
        for (text, wanted) in [
            ("sh ./build.rs ./src no/such", format!("sh {script} ./src no/such")),
            ("/bin/sh ./build.rs ./src", format!("/bin/sh {script} ./src")),
            ("sh ./build.rs|cat ./build.rs", format!("sh {script}|cat ./build.rs")),
            ("/bin/sh ./build.rs>./build.rs", format!("/bin/sh {script}>./build.rs")),
            ("  python3.11 \"./build.rs\"; sync", format!("  python3.11 {script}; sync")),
            ("sh ./build.rs $X '$X' ./build.rs # ./src", format!("sh {script} $X '$X' ./build.rs # ./src")),
            ("sh ./build.rs $(ls ./src) ./src", format!("sh {script} $(ls ./src) ./src")),
            ("grep -q . ./build.rs", "grep -q . ./build.rs".to_owned()),
            ("sh -e ./build.rs", "sh -e ./build.rs".to_owned()),
            ("./no/such", "./no/such".to_owned()),
            ("$X/build.rs", "$X/build.rs".to_owned()),
            ("'./build.rs", "'./build.rs".to_owned()),
            ("(./build.rs)", "(./build.rs)".to_owned()),
        ] {
            assert_eq!(line(text), wanted);
        }
    }

    #[test]
    fn words_are_unquoted_and_paths_quoted_where_they_need_it() {
        assert_eq!(quoted("/a b/c'd"), r"'/a b/c'\''d'");
        assert_eq!(quoted("/a/b-1.sh"), "/a/b-1.sh");
        let of = |text: &str| words(text).into_iter().map(|word| (word.text, word.range)).collect::<Vec<_>>();
        assert_eq!(of("'./a b'\\ c\"d\" $e"), [(Some("./a b cd".to_owned()), 0..13), (None, 14..16)]);
        assert_eq!(of(" \t"), []);
    }

    #[test]
    fn what_cannot_run_is_refused_before_a_guest_boots() {
        assert!(
            refusal("./build.rs a; true")
                .contains("--check: ./build.rs: this file is not executable; chmod +x")
        );
        assert!(
            refusal("/proc/self/exe | cat").contains("/proc hides this machine's"),
            "{}",
            refusal("/proc/self/exe")
        );
        assert_eq!(refusal(" \n"), "--check: the command is empty");
    }
}
