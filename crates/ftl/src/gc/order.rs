use strobe_types::{BlockId, Stored};

/// A doubly linked list through a table of blocks, with removal in constant time.
#[derive(Clone, Debug, Stored)]
pub(crate) struct ClosingOrder {
    /// One link per block, and a sentinel that joins the ends: its `next` is the block closed first.
    links: Vec<Link>,
    len: u32,
}

#[derive(Clone, Copy, Debug, Stored)]
struct Link {
    next: u32,
    previous: u32,
}

const ABSENT: Link = Link { next: u32::MAX, previous: u32::MAX };

impl ClosingOrder {
    pub(crate) fn new(blocks: u32) -> Self {
        let mut links = vec![ABSENT; blocks as usize];
        links.push(Link { next: blocks, previous: blocks });
        Self { links, len: 0 }
    }

    fn ends(&self) -> usize {
        self.links.len() - 1
    }

    pub(crate) fn push(&mut self, block: BlockId) {
        let ends = self.ends();
        let last = self.links[ends].previous;
        self.links[block.index()] = Link { next: ends as u32, previous: last };
        self.links[last as usize].next = block.get();
        self.links[ends].previous = block.get();
        self.len += 1;
    }

    /// Panics if `block` is not in the list.
    pub(crate) fn remove(&mut self, block: BlockId) {
        let Link { next, previous } = std::mem::replace(&mut self.links[block.index()], ABSENT);
        assert_ne!(next, ABSENT.next, "{block:?} is a candidate");
        self.links[previous as usize].next = next;
        self.links[next as usize].previous = previous;
        self.len -= 1;
    }

    pub(crate) fn first(&self) -> Option<BlockId> {
        (self.len > 0).then(|| BlockId::new(self.links[self.ends()].next))
    }

    pub(crate) fn next(&self, block: BlockId) -> Option<BlockId> {
        let next = self.links[block.index()].next;
        (next as usize != self.ends()).then(|| BlockId::new(next))
    }

    pub(crate) fn len(&self) -> u32 {
        self.len
    }
}
