//! File access of an image.

use std::fmt::Debug;
use std::fs::File;
use std::io;

pub(super) trait Storage: Debug + Send {
    fn length(&self) -> io::Result<u64>;

    fn read(&self, bytes: &mut [u8], offset: u64) -> io::Result<()>;

    /// On failure some of `bytes` may have been written.
    fn write(&self, bytes: &[u8], offset: u64) -> io::Result<()>;

    /// Releases space, if the file system supports it. The bytes are then unspecified.
    fn punch(&self, offset: u64, length: u64);

    fn sync(&self) -> io::Result<()>;
}

impl Storage for File {
    fn length(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    fn read(&self, mut bytes: &mut [u8], mut offset: u64) -> io::Result<()> {
        while !bytes.is_empty() {
            match read_some(self, bytes, offset) {
                // Bytes beyond the end of the file read as zeros.
                Ok(0) => {
                    bytes.fill(0);
                    break;
                }
                Ok(count) => {
                    bytes = &mut bytes[count..];
                    offset += count as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn write(&self, mut bytes: &[u8], mut offset: u64) -> io::Result<()> {
        while !bytes.is_empty() {
            match write_some(self, bytes, offset) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => {
                    bytes = &bytes[count..];
                    offset += count as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    #[cfg(target_os = "linux")]
    fn punch(&self, offset: u64, length: u64) {
        use rustix::fs::{FallocateFlags, fallocate};
        // Not every file system supports this, and nothing depends on it.
        let _ = fallocate(self, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, offset, length);
    }

    #[cfg(not(target_os = "linux"))]
    fn punch(&self, _offset: u64, _length: u64) {}

    fn sync(&self) -> io::Result<()> {
        self.sync_data()
    }
}

#[cfg(unix)]
use std::os::unix::fs::FileExt;
#[cfg(windows)]
use std::os::windows::fs::FileExt;

#[cfg(unix)]
fn read_some(file: &File, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
    file.read_at(bytes, offset)
}

#[cfg(unix)]
fn write_some(file: &File, bytes: &[u8], offset: u64) -> io::Result<usize> {
    file.write_at(bytes, offset)
}

#[cfg(windows)]
fn read_some(file: &File, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
    file.seek_read(bytes, offset)
}

#[cfg(windows)]
fn write_some(file: &File, bytes: &[u8], offset: u64) -> io::Result<usize> {
    file.seek_write(bytes, offset)
}
