use super::Group;

#[derive(Clone, Debug)]
pub(super) enum Reading {
    Nothing,
    Commands { group: Group, at: usize },
    Sensing { group: Group, until: u64 },
    Sensed { group: Group },
}

#[derive(Clone, Debug)]
pub(super) struct Reader {
    pub(super) reading: Reading,
    pub(super) sending: Option<(Group, usize)>,
}

impl Reader {
    pub(super) fn groups(&self) -> impl Iterator<Item = &Group> {
        let reading = match &self.reading {
            Reading::Nothing => None,
            Reading::Commands { group, .. } | Reading::Sensing { group, .. } | Reading::Sensed { group } => {
                Some(group)
            }
        };
        reading.into_iter().chain(self.sending.as_ref().map(|(group, _)| group))
    }
}
