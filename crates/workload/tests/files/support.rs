use std::collections::BTreeMap;
use std::io::{Cursor, Read, Write};
use std::process::Command;
use strobe_workload::files::{FileError, FileId, FileSystem};

pub(crate) type Tree = BTreeMap<String, Option<Vec<u8>>>;

pub(crate) struct Verdict {
    pub(crate) exit: i32,
    pub(crate) text: String,
    pub(crate) image: Vec<u8>,
}

#[track_caller]
pub(crate) fn fsck(image: &[u8], option: &str) -> Option<Verdict> {
    let program = strobe_testing::program("fsck.fat", "dosfstools")?;
    let mut file = tempfile::NamedTempFile::new().expect("a temporary file");
    file.write_all(image).expect("the image is written");
    let output = Command::new(program).arg(option).arg(file.path()).output().expect("fsck.fat runs");
    let text =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    let image = std::fs::read(file.path()).expect("the image is read");
    Some(Verdict { exit: output.status.code().unwrap_or(-1), text, image })
}

#[track_caller]
pub(crate) fn assert_clean(image: &[u8]) {
    if let Some(verdict) = fsck(image, "-n") {
        assert_eq!(verdict.exit, 0, "{}", verdict.text);
    }
}

pub(crate) fn tree_of_volume(image: &[u8]) -> Tree {
    fn walk<T: fatfs::ReadWriteSeek>(directory: &fatfs::Dir<'_, T>, path: &str, tree: &mut Tree) {
        for entry in directory.iter() {
            let entry = entry.expect("a directory can be read");
            let name = entry.file_name();
            if name == "." || name == ".." {
                continue;
            }
            let path = format!("{path}{name}");
            if entry.is_dir() {
                walk(&entry.to_dir(), &format!("{path}/"), tree);
                tree.insert(path, None);
            } else {
                let mut bytes = Vec::new();
                entry.to_file().read_to_end(&mut bytes).expect("a file can be read");
                assert_eq!(bytes.len() as u64, entry.len(), "{path} is as long as its entry says");
                tree.insert(path, Some(bytes));
            }
        }
    }
    let fs = fatfs::FileSystem::new(Cursor::new(image.to_vec()), fatfs::FsOptions::new()).expect("a volume");
    let mut tree = Tree::new();
    walk(&fs.root_dir(), "", &mut tree);
    tree
}

pub(crate) fn tree_of_directory(root: &std::path::Path) -> Tree {
    fn walk(directory: &std::path::Path, path: &str, tree: &mut Tree) {
        for entry in std::fs::read_dir(directory).expect("a directory can be read") {
            let entry = entry.expect("an entry can be read");
            let name = format!("{path}{}", entry.file_name().to_str().expect("names are ASCII"));
            if entry.path().is_dir() {
                walk(&entry.path(), &format!("{name}/"), tree);
                tree.insert(name, None);
            } else {
                tree.insert(name, Some(std::fs::read(entry.path()).expect("a file can be read")));
            }
        }
    }
    let mut tree = Tree::new();
    walk(root, "", &mut tree);
    tree
}

pub(crate) struct Model<'a> {
    fs: &'a mut dyn FileSystem,
    pub(crate) tree: Tree,
    open: BTreeMap<FileId, String>,
}

impl<'a> Model<'a> {
    pub(crate) fn new(fs: &'a mut dyn FileSystem) -> Self {
        Self { fs, tree: Tree::new(), open: BTreeMap::new() }
    }

    fn contents(&mut self, file: FileId) -> &mut Vec<u8> {
        let path = &self.open[&file];
        self.tree.get_mut(path).and_then(Option::as_mut).expect("an open file exists")
    }
}

impl FileSystem for Model<'_> {
    fn make_dir(&mut self, path: &str) -> Result<(), FileError> {
        self.fs.make_dir(path)?;
        assert!(self.tree.insert(path.into(), None).is_none(), "{path} was there");
        Ok(())
    }

    fn remove_dir(&mut self, path: &str) -> Result<(), FileError> {
        self.fs.remove_dir(path)?;
        assert_eq!(self.tree.remove(path), Some(None), "{path}");
        Ok(())
    }

    fn create(&mut self, path: &str) -> Result<FileId, FileError> {
        let file = self.fs.create(path)?;
        assert!(self.tree.insert(path.into(), Some(Vec::new())).is_none(), "{path} was there");
        assert!(self.open.insert(file, path.into()).is_none(), "a handle is given out twice");
        Ok(file)
    }

    fn open(&mut self, path: &str) -> Result<FileId, FileError> {
        let file = self.fs.open(path)?;
        assert!(self.open.insert(file, path.into()).is_none(), "a handle is given out twice");
        assert_eq!(self.fs.size(file)?, self.contents(file).len() as u64, "{path}");
        Ok(file)
    }

    fn size(&mut self, file: FileId) -> Result<u64, FileError> {
        self.fs.size(file)
    }

    fn write_at(&mut self, file: FileId, offset: u64, bytes: &[u8]) -> Result<(), FileError> {
        let result = self.fs.write_at(file, offset, bytes);
        let size = self.fs.size(file)? as usize;
        let contents = self.contents(file);
        let end = match result {
            Ok(()) => offset as usize + bytes.len(),
            Err(FileError::NoSpace) => size,
            Err(error) => return Err(error),
        };
        contents.resize(end.max(contents.len()), 0);
        assert_eq!(size, contents.len(), "what fitted is in the file");
        contents[offset as usize..end].copy_from_slice(&bytes[..end - offset as usize]);
        result
    }

    fn read_at(&mut self, file: FileId, offset: u64, buffer: &mut [u8]) -> Result<usize, FileError> {
        let size = self.fs.read_at(file, offset, buffer)?;
        let rest = &self.contents(file)[offset as usize..];
        assert!(buffer[..size] == rest[..buffer.len().min(rest.len())], "a read at {offset} differs");
        Ok(size)
    }

    fn sync(&mut self, file: FileId) -> Result<(), FileError> {
        self.fs.sync(file)
    }

    fn close(&mut self, file: FileId) -> Result<(), FileError> {
        self.open.remove(&file);
        self.fs.close(file)
    }

    fn remove(&mut self, path: &str) -> Result<(), FileError> {
        self.fs.remove(path)?;
        assert!(self.tree.remove(path).flatten().is_some(), "{path}");
        Ok(())
    }
}
