//! Shell commands that repeat a cut or open a kept drive.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt as _;

use super::CrashArgs;

/// `on` is the file system, if --fs names several, and `drive` the kind of drive, if --drives names any.
pub(super) fn again(
    given: impl Iterator<Item = OsString>,
    operation: u64,
    on: Option<&str>,
    drive: Option<&str>,
) -> String {
    let mut words =
        ["strobe".to_owned(), "crash".into(), format!("--at={operation}")].map(OsString::from).to_vec();
    words.extend(on.map(|fs| format!("--fs={fs}").into()));
    words.extend(drive.map(|kind| format!("--drives={kind}").into()));
    let mut skips = false;
    let mut is_program = false;
    for word in given {
        is_program |= word == "--";
        if std::mem::take(&mut skips) {
            continue;
        }
        if (word == "--until-first" || word == "--find-sync") && !is_program {
            continue;
        }
        // Options that chose the cut or its outputs are dropped, so the command repeats exactly this cut.
        let names = [
            "--cuts", "--places", "--drives", "--budget", "--seen", "--json", "--report", "--junit",
            "--sarif", "--keep", "--fs",
        ];
        // The last name, --fs, is dropped only if `on` replaces it.
        let is_place = names[..names.len() - usize::from(on.is_none())].iter().any(|name| {
            skips |= !is_program && word == *name;
            word == *name || word.as_bytes().starts_with(format!("{name}=").as_bytes())
        });
        if is_program || !is_place {
            words.push(word);
        }
    }
    format!(
        "\nTo repeat the first of these with the full output of the check (add --image FILE to keep the drive):\n\n  {}\n",
        quoted(&words)
    )
}

/// `sets` are keys beside those of `--set`.
pub(super) fn look_at(args: &CrashArgs, sets: &[String], image: &str, fs: &str) -> String {
    let mut words: Vec<OsString> = ["strobe", "linux"].map(OsString::from).to_vec();
    if let Some(kernel) = &args.guest.kernel {
        words.extend(["--kernel".into(), kernel.into()]);
    }
    words.extend(["--image", image, "--drive", args.guest.drive(), "--fs", fs].map(OsString::from));
    words.extend(args.guest.sets.iter().chain(sets).map(|set| format!("--set={set}").into()));
    words.extend(["--", "ls", "-la"].map(OsString::from));
    format!("\nTo open that drive:\n\n  {}\n", quoted(&words))
}

fn quoted(words: &[OsString]) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_=./,:+%@".contains(c);
    let word = |word: &OsString| match word.to_str() {
        Some(word) if !word.is_empty() && word.chars().all(is_plain) => word.to_owned(),
        Some(word) => format!("'{}'", word.replace('\'', "'\\''")),
        None => {
            let byte = |byte: &u8| match char::from(*byte) {
                plain if is_plain(plain) => plain.to_string(),
                _ => format!("\\x{byte:02x}"),
            };
            format!("$'{}'", word.as_bytes().iter().map(byte).collect::<String>())
        }
    };
    words.iter().map(word).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStringExt as _;

    use super::*;

    fn words<const N: usize>(words: [&str; N]) -> Vec<OsString> {
        words.map(OsString::from).to_vec()
    }

    #[test]
    fn words_are_quoted_for_a_shell() {
        assert_eq!(quoted(&words(["a", "b c", "it's", "", "--x=1"])), r"a 'b c' 'it'\''s' '' --x=1");
        assert_eq!(quoted(&[OsString::from_vec(b"a/\xff c".to_vec())]), r"$'a/\xff\x20c'");
    }

    #[test]
    fn a_cut_is_shown_again_whatever_bytes_the_arguments_are() {
        let mut given = words([
            "--cuts",
            "9",
            "--find-sync",
            "--budget",
            "60s",
            "--drives=4k,16k",
            "--seen=s",
            "--keep=here",
            "--image",
        ]);
        given.push(OsString::from_vec(vec![b'i', 0xff]));
        given.extend(words(["--", "./save.sh", "--cuts"]));
        let again = again(given.into_iter(), 7, Some("ext4"), Some("16k"));
        let command = r"strobe crash --at=7 --fs=ext4 --drives=16k --image $'i\xff' -- ./save.sh --cuts";
        assert!(again.trim_end().ends_with(command), "{again}");
    }

    #[test]
    fn the_command_that_opens_a_drive_names_the_kernel_that_was_given() {
        use clap::Parser;

        #[derive(Parser)]
        struct Line {
            #[command(flatten)]
            args: CrashArgs,
        }

        let line = |more: &[&str]| {
            let words = [&["crash"], more, &["--", "true"]].concat();
            look_at(
                &Line::try_parse_from(words).unwrap_or_else(|error| panic!("{error}")).args,
                &[],
                "a.img",
                "xfs",
            )
        };
        assert!(
            line(&["--kernel", "./my linux"]).contains("strobe linux --kernel './my linux' --image a.img ")
        );
        assert!(line(&[]).contains("strobe linux --image a.img --drive jasmine-4g --fs xfs -- ls -la"));
    }
}
