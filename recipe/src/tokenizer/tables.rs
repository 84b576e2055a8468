//! Tables of numbers that are either built in memory or lie ready in the program, and the image that holds them there.
//!
//! An image is what a tokenizer is made of, one section after the other in the machine's own byte order: it is made
//! when this crate is built and read by the same build, so it needs no version and no check of its content.
//!
//! Owns: the layout of an image. Must not know: what the tables mean. Cost: reading an image touches none of its tables.

use std::borrow::Cow;

use bytemuck::Pod;

/// A table of numbers.
pub(super) type Table<T> = Cow<'static, [T]>;

/// Sections begin at multiples of this: a cache line, and the alignment that an image must have.
pub const ALIGNMENT: usize = 64;

/// Writes an image.
#[derive(Default)]
pub(super) struct ImageWriter {
    bytes: Vec<u8>,
}

impl ImageWriter {
    /// Appends a section: a line for its length in bytes, and its content.
    pub(super) fn write<T: Pod>(&mut self, table: &[T]) {
        let content: &[u8] = bytemuck::cast_slice(table);
        self.bytes.extend_from_slice(&(content.len() as u64).to_ne_bytes());
        self.pad();
        self.bytes.extend_from_slice(content);
        self.pad();
    }

    fn pad(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(ALIGNMENT), 0);
    }

    pub(super) fn finish(self) -> Vec<u8> {
        self.bytes
    }
}

/// Reads the sections of an image in the order in which they were written.
pub(super) struct ImageReader {
    rest: &'static [u8],
}

impl ImageReader {
    pub(super) fn new(image: &'static [u8]) -> Self {
        Self { rest: image }
    }

    /// The next section; `None` when the image ends before, is not aligned, or its content is no table of `T`.
    pub(super) fn read<T: Pod>(&mut self) -> Option<Table<T>> {
        let (head, rest) = self.rest.split_at_checked(ALIGNMENT)?;
        let length = usize::try_from(u64::from_ne_bytes(*head.first_chunk()?)).ok()?;
        let content = rest.get(..length)?;
        self.rest = rest.get(length.next_multiple_of(ALIGNMENT)..)?;
        bytemuck::try_cast_slice(content).ok().map(Cow::Borrowed)
    }
}
