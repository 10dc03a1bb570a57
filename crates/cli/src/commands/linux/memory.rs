//! Failed memory allocations of guest programs: their error messages, and the option that helps.

use strobe_linux::Stream;

/// Error messages of failed allocations: Python, C library, C++, Rust, Java, GNU tools, and Go and others.
const REFUSALS: [&str; 7] = [
    "MemoryError",
    "Cannot allocate memory",
    "std::bad_alloc",
    "memory allocation of",
    "OutOfMemoryError",
    "memory exhausted",
    "out of memory",
];

#[derive(Default)]
pub(super) struct Refusals {
    /// End of the output so far, which may hold the start of a message.
    tail: Vec<u8>,
    found: Option<&'static str>,
}

impl Refusals {
    /// Searches the output, which arrives in pieces.
    pub(super) fn hear(&mut self, stream: Stream, bytes: &[u8]) {
        if stream != Stream::Error || self.found.is_some() {
            return;
        }
        self.tail.extend_from_slice(bytes);
        let text = String::from_utf8_lossy(&self.tail);
        self.found = REFUSALS.into_iter().find(|words| text.contains(words));
        let longest = REFUSALS.map(str::len).into_iter().max().unwrap_or(0);
        self.tail.drain(..self.tail.len().saturating_sub(longest));
    }

    pub(super) fn note(&self, memory_mib: u32) -> Option<String> {
        self.found.map(|words| {
            format!(
                "note: a memory allocation failed in the guest (\"{words}\"), which has {memory_mib} MiB: set \
                 --memory above {memory_mib}"
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note_of(stream: Stream, pieces: &[&str]) -> Option<String> {
        let mut refusals = Refusals::default();
        pieces.iter().for_each(|piece| refusals.hear(stream, piece.as_bytes()));
        refusals.note(512)
    }

    #[test]
    fn a_refusal_of_memory_names_the_option() {
        let python =
            note_of(Stream::Error, &["Traceback (most recent call last):\n  x()\n", "MemoryError\n"]);
        assert_eq!(
            python.as_deref(),
            Some(
                "note: a memory allocation failed in the guest (\"MemoryError\"), which has 512 MiB: set \
                 --memory above 512"
            )
        );
        let pieces = [&"x".repeat(5000), "sh: fork: Cannot all", "ocate ", "memory\n", "and more\n"];
        assert!(note_of(Stream::Error, &pieces).is_some_and(|note| note.contains("Cannot allocate memory")));
    }

    #[test]
    fn other_errors_and_output_are_no_refusals() {
        assert_eq!(note_of(Stream::Error, &["Memory", " Error: no space left\n"]), None);
        assert_eq!(note_of(Stream::Output, &["MemoryError\n"]), None);
    }
}
