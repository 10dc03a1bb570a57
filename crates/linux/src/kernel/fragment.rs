use std::fs;
use std::path::{Path, PathBuf};

use super::KernelError;

/// Configuration fragment in the format of a kernel's .config.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fragment {
    path: PathBuf,
    options: Vec<(String, String)>,
}

impl Fragment {
    /// Reads a fragment. The error names the first invalid line.
    pub fn read(path: &Path) -> Result<Self, KernelError> {
        let unusable = |reason: String| KernelError::Fragment { path: path.display().to_string(), reason };
        let text = fs::read_to_string(path).map_err(|error| unusable(error.to_string()))?;
        let mut options = Vec::new();
        for (number, line) in text.lines().enumerate() {
            match option(line) {
                Ok(found) => options.extend(found),
                Err(reason) => return Err(unusable(format!("line {}: {reason}", number + 1))),
            }
        }
        Ok(Self { path: path.to_owned(), options })
    }

    pub(super) fn config(&self) -> String {
        self.options.iter().map(|(name, value)| format!("CONFIG_{name}={value}\n")).collect()
    }

    pub(super) fn check_known(&self, tree: &Path) -> Result<(), KernelError> {
        let known = known_options(tree)?;
        let unknown: Vec<_> = self.options.iter().filter(|(name, _)| !known.contains(name)).collect();
        if unknown.is_empty() {
            return Ok(());
        }
        let names: Vec<_> = unknown.iter().map(|(name, _)| format!("CONFIG_{name}")).collect();
        Err(self.refused(format!("this version of Linux has no option {}", names.join(", "))))
    }

    pub(super) fn check_taken(&self, made: &str) -> Result<(), KernelError> {
        let is_taken = |(name, value): &&(String, String)| {
            let line = format!("CONFIG_{name}={value}");
            let set = format!("CONFIG_{name}=");
            match &**value {
                "n" => !made.lines().any(|made| made.starts_with(&set)),
                _ => made.lines().any(|made| made == line),
            }
        };
        let refused: Vec<_> = self.options.iter().filter(|option| !is_taken(option)).collect();
        if refused.is_empty() {
            return Ok(());
        }
        let lines: Vec<_> = refused.iter().map(|(name, value)| format!("CONFIG_{name}={value}")).collect();
        Err(self.refused(format!(
            "{} did not take effect: a dependency is missing, or another option overrides it",
            lines.join(", ")
        )))
    }

    fn refused(&self, reason: String) -> KernelError {
        KernelError::Fragment { path: self.path.display().to_string(), reason }
    }
}

fn option(line: &str) -> Result<Option<(String, String)>, String> {
    let line = line.trim();
    let off = line.strip_prefix("# CONFIG_").and_then(|rest| rest.strip_suffix(" is not set"));
    let pair = match off {
        Some(name) => Some((name, "n")),
        None if line.is_empty() || line.starts_with('#') => return Ok(None),
        None => line.strip_prefix("CONFIG_").and_then(|rest| rest.split_once('=')),
    };
    let is_name = |name: &str| {
        !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    };
    match pair {
        Some((_, "m")) => Err(format!("{line}: a guest's kernel has no modules; =y builds it in")),
        Some((name, value)) if is_name(name) && !value.is_empty() => {
            Ok(Some((name.to_owned(), value.to_owned())))
        }
        _ => Err(format!("{line:?} is not an option; use CONFIG_NAME=y, CONFIG_NAME=n or CONFIG_NAME=VALUE")),
    }
}

fn known_options(tree: &Path) -> Result<std::collections::BTreeSet<String>, KernelError> {
    let (mut known, mut folders) = (std::collections::BTreeSet::new(), vec![tree.to_owned()]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder)? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                folders.push(entry.path());
            } else if entry.file_name().to_string_lossy().starts_with("Kconfig") {
                let bytes = fs::read(entry.path())?;
                let text = String::from_utf8_lossy(&bytes);
                let words = text.lines().filter_map(|line| line.trim().split_once(char::is_whitespace));
                let declared = words.filter(|(word, _)| matches!(*word, "config" | "menuconfig"));
                known.extend(declared.map(|(_, name)| name.trim().to_owned()));
            }
        }
    }
    Ok(known)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Fragment, KernelError> {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("my.config");
        fs::write(&path, text).expect("written");
        Fragment::read(&path)
    }

    #[test]
    fn lines_are_options_or_refused_by_number() {
        let fragment = read("# mine\n\nCONFIG_A=y\nCONFIG_B_2=\"x\"\n# CONFIG_C is not set\n").expect("good");
        assert_eq!(fragment.config(), "CONFIG_A=y\nCONFIG_B_2=\"x\"\nCONFIG_C=n\n");
        for (text, reason) in [
            ("CONFIG_A=m", "line 1: CONFIG_A=m: a guest's kernel has no modules"),
            ("\nA=y", "line 2: \"A=y\" is not an option"),
            ("CONFIG_=y", "is not an option"),
            ("CONFIG_A=", "is not an option"),
        ] {
            let error = read(text).expect_err(text).to_string();
            assert!(error.contains("my.config") && error.contains(reason), "{error}");
        }
    }

    #[test]
    fn options_that_are_not_known_or_not_taken_are_named() {
        let tree = tempfile::tempdir().expect("a folder");
        fs::create_dir(tree.path().join("fs")).expect("a folder");
        fs::write(tree.path().join("fs/Kconfig"), "config A\n\tbool\nmenuconfig B\n").expect("written");
        let fragment = read("CONFIG_A=y\nCONFIG_B=n\nCONFIG_NOSUCH=y\n").expect("good");
        let error = fragment.check_known(tree.path()).expect_err("unknown").to_string();
        assert!(error.ends_with("has no option CONFIG_NOSUCH"), "{error}");
        let fragment = read("CONFIG_A=y\nCONFIG_B=n\n").expect("good");
        fragment.check_known(tree.path()).expect("known");
        fragment.check_taken("CONFIG_A=y\n# CONFIG_B is not set\n").expect("taken");
        let error = fragment.check_taken("CONFIG_B=y\n").expect_err("not taken").to_string();
        assert!(error.contains("CONFIG_A=y, CONFIG_B=n did not take effect"), "{error}");
    }
}
