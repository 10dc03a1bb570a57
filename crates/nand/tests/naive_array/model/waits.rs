use super::reader::Reader;
use super::{Doing, Kind, Model, Target, Then};

impl Model {
    pub(crate) fn both(&mut self, a: Then, b: Then) -> Then {
        match (a, b) {
            (Then::At(a), Then::At(b)) => Then::At(a.max(b)),
            _ if a == b || self.is_there(a) => b,
            _ if self.is_there(b) => a,
            _ => {
                let join = self.add(Kind::Join, 0, &[a, b], Target::default(), 0);
                self.let_go();
                Then::With(join)
            }
        }
    }

    pub(crate) fn all(&mut self, thens: &[Then]) -> Then {
        let mut left: Vec<Then> = Vec::new();
        for &then in thens {
            if self.is_there(then) {
                continue;
            }
            if let (Some(&Then::With(last)), Then::With(op)) = (left.last(), then)
                && self.follows(last, op)
            {
                left.pop();
            }
            left.push(then);
        }
        match left[..] {
            [] => Then::At(0),
            [only] => only,
            _ => {
                let join = self.add(Kind::Join, 0, &left, Target::default(), 0);
                self.let_go();
                Then::With(join)
            }
        }
    }

    fn follows(&self, a: usize, b: usize) -> bool {
        let die = &self.dies[self.ops[a].target.die];
        let queue: Vec<usize> =
            die.queue.iter().copied().filter(|&op| self.line(op) == self.line(a)).collect();
        let current = match &die.doing {
            Doing::Loading { group, .. } | Doing::Array { group, .. } => Some(group),
            Doing::Nothing | Doing::Suspending { .. } | Doing::Resuming { .. } => None,
        };
        let reads = die.readers.iter().flat_map(Reader::groups).map(Some);
        let ahead = die.ahead.as_ref().map(|ahead| &ahead.group);
        let suspended = die.suspended.as_ref().map(|(group, ..)| group);
        let groups = [Some(&queue), current, ahead, suspended];
        groups.into_iter().chain(reads).flatten().any(|group| group.windows(2).any(|pair| pair == [a, b]))
    }
}
