//! Lines of source code from which a program made its system calls.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use addr2line::Loader;
use object::{Object as _, ObjectSegment as _};
use serde::Serialize;

/// Code that a program's stack points into: a return address, or a stale word that looks like one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Caller {
    /// Path of the program or library.
    pub(super) module: String,
    /// Offset in that file.
    pub(super) offset: u64,
}

/// Largest program or library that is searched for lines.
const MODULE_MAX: u64 = 1 << 30;

/// Place in a program's source.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SourceLine {
    /// Source file, as the debug information names it; relative to the current folder if it is below.
    pub file: String,
    /// Line, from 1.
    pub line: u32,
    /// Function, demangled; empty if unknown.
    pub function: String,
}

impl std::fmt::Display for SourceLine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.file, self.line)?;
        match &*self.function {
            "" => Ok(()),
            function => write!(f, " in {function}"),
        }
    }
}

/// Debug information of the programs and libraries that made calls.
#[derive(Default)]
pub(super) struct Sources {
    /// Folder to which paths of sources are relative.
    folder: PathBuf,
    modules: RefCell<BTreeMap<String, Option<Module>>>,
}

struct Module {
    loader: Loader,
    bytes: Vec<u8>,
    /// Parts of the file that are loaded: offset in the file, length, address.
    segments: Vec<(u64, u64, u64)>,
}

impl Module {
    fn open(path: &Path) -> Option<Self> {
        let metadata = std::fs::metadata(path).ok()?;
        if !metadata.is_file() || metadata.len() > MODULE_MAX {
            return None;
        }
        let bytes = std::fs::read(path).ok()?;
        let file = object::File::parse(&*bytes).ok()?;
        let segments = file.segments().map(|segment| {
            let (offset, length) = segment.file_range();
            (offset, length, segment.address())
        });
        let segments = segments.collect();
        Some(Self { loader: Loader::new(path).ok()?, segments, bytes })
    }

    /// True if the code before `offset` ends with a call, as before a return address.
    fn is_behind_call(&self, offset: u64) -> bool {
        let before = |bytes: usize| {
            let from = usize::try_from(offset).ok()?.checked_sub(bytes)?;
            self.bytes.get(from..from + 2).map(|code| (code[0], code[1]))
        };
        let is_near = before(5).is_some_and(|(opcode, _)| opcode == 0xe8);
        // FF /2: an indirect call, whose addressing mode gives its length.
        let is_indirect = |bytes: usize| {
            before(bytes).is_some_and(|(opcode, operand)| {
                let length = match (operand >> 6, operand & 7) {
                    (1, 4) => 4,
                    (2, 4) => 7,
                    (0, 4) | (1, _) => 3,
                    (0, 5) | (2, _) => 6,
                    _ => 2,
                };
                opcode == 0xff && operand & 0x38 == 0x10 && length == bytes
            })
        };
        is_near || [2, 3, 4, 6, 7].into_iter().any(is_indirect)
    }

    fn line(&self, offset: u64) -> Option<SourceLine> {
        if !self.is_behind_call(offset) {
            return None;
        }
        let is_inside =
            |(at, length, _): &&(u64, u64, u64)| offset.checked_sub(*at).is_some_and(|by| by < *length);
        let (at, _, address) = self.segments.iter().find(is_inside)?;
        // A return address is behind its call, which may be the last instruction of a line.
        let probe = address.checked_add(offset - at)?.checked_sub(1)?;
        let mut frames = self.loader.find_frames(probe).ok()?;
        // The innermost function that has a line; with inlining an address has several.
        while let Ok(Some(frame)) = frames.next() {
            let Some(location) = &frame.location else { continue };
            let (Some(file), Some(line)) = (location.file, location.line) else { continue };
            let name = frame.function.as_ref().and_then(|name| Some(name.demangle().ok()?.into_owned()));
            return Some(SourceLine { file: file.to_owned(), line, function: name.unwrap_or_default() });
        }
        None
    }
}

impl Sources {
    pub(super) fn in_current_folder() -> Self {
        let folder = std::env::current_dir().unwrap_or_default();
        Self { folder, modules: RefCell::default() }
    }

    /// Returns the line of the first caller that has debug information, except for libraries of Rust and C.
    pub(super) fn line(&self, callers: &[Caller]) -> Option<SourceLine> {
        callers.iter().filter(|caller| !is_interpreter(&caller.module)).find_map(|caller| {
            let mut modules = self.modules.borrow_mut();
            let module = modules
                .entry(caller.module.clone())
                .or_insert_with(|| Module::open(Path::new(&caller.module)));
            let found = module.as_ref()?.line(caller.offset);
            let mut line = found.filter(|line| !is_of_the_language(&line.file))?;
            if let Ok(below) = Path::new(&line.file).strip_prefix(&self.folder) {
                line.file = below.display().to_string();
            }
            Some(line)
        })
    }
}

/// True for programs whose own source says nothing about the script that they run.
fn is_interpreter(module: &str) -> bool {
    let name = module.rsplit('/').next().unwrap_or_default();
    let names = ["python", "libpython", "perl", "libperl", "ruby", "libruby", "node", "php", "java", "libj"];
    names.iter().any(|start| name.starts_with(start))
}

/// True for sources of the standard libraries of Rust and C, which call on behalf of the program.
fn is_of_the_language(file: &str) -> bool {
    ["/rustc/", "/rustlib/src/", "/go/src/runtime/", "/go/src/syscall/", "/go/src/os/", "/go/src/internal/"]
        .iter()
        .any(|part| file.contains(part))
        || ["../sysdeps/", "./libio/", "./io/", "./stdio-common/"].iter().any(|part| file.starts_with(part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_return_address_has_the_line_of_its_call() {
        let folder = tempfile::tempdir().expect("a folder");
        let (source, program) = (folder.path().join("save.c"), folder.path().join("save"));
        let text =
            "#include <stdio.h>\nvoid put(void)\n{\n\tputs(\"saved\");\n}\nint main(void) { put(); }\n";
        std::fs::write(&source, text).expect("a file");
        // The linker of Rust programs is a C compiler.
        let mut compile = std::process::Command::new("cc");
        let status = compile.args(["-g", "-O0", "-o"]).args([&program, &source]).status();
        assert!(status.expect("cc").success());
        let bytes = std::fs::read(&program).expect("a program");
        let file = object::File::parse(&*bytes).expect("an ELF file");
        let symbols = file.symbol_map();
        let put = symbols.symbols().iter().find(|symbol| symbol.name() == "put").expect("a symbol").address();
        let is_around = |segment: &object::Segment<'_, '_>| {
            put.checked_sub(segment.address()).is_some_and(|by| by < segment.size())
        };
        let segment = file.segments().find(is_around).expect("a segment");
        let begin = put - segment.address() + segment.file_range().0;
        let module = program.display().to_string();
        let sources = Sources { folder: folder.path().to_owned(), ..Sources::default() };
        let line = |offset| {
            sources.line(&[
                Caller { module: "/nothere".to_owned(), offset: 4 },
                Caller { module: "/proc/self/status".to_owned(), offset: 4 },
                Caller { module: source.display().to_string(), offset: 4 },
                Caller { module: module.clone(), offset: u64::MAX },
                Caller { module: module.clone(), offset },
            ])
        };
        let lines: Vec<_> = (begin + 1..begin + 64).filter_map(line).collect();
        assert_eq!((&*lines[0].file, &*lines[0].function), ("save.c", "put"));
        let of_put: Vec<u32> =
            lines.iter().filter(|line| line.function == "put").map(|line| line.line).collect();
        // The return address of `puts` is there, and little else looks like one.
        assert!(of_put.contains(&4) && of_put.len() <= 3, "{of_put:?}");
    }
}
