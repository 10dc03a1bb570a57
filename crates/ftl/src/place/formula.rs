//! Placement by a formula: its value is the stream.
//!
//! 1. The variables describe the unit before the write or relocation.
//! 2. The value is rounded down and limited to the existing streams; not a number (0/0) is stream 0.
//! 3. The write or relocation is then recorded, even before a collection that it triggers. That collection
//!    already sees the new write.
//!
//! Time is counted in units written by the host.
//!
//! Example: `stream + 1 - 2 * is_copy` is dynamic data clustering (DAC): a host write moves a unit up one
//! stream, a relocation down one.
//!
//! Memory: only for the variables in use, at most 25 bytes per logical unit.

use strobe_types::{Lpn, State};

use super::{CopyContext, DataTag, Hint, Placement, StreamId, StreamLayout, WriteContext, by_state};
use crate::formula::{Expression, FormulaError, Stack, parse};

/// A variable of placement formulas.
#[derive(Clone, Copy, Debug)]
pub struct UnitVariable {
    /// Name.
    pub name: &'static str,
    /// Meaning, in words.
    pub meaning: &'static str,
    value: Value,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Value {
    Age,
    Interval,
    Writes,
    Copies,
    Stream,
    IsCopy,
    Address,
    Handle,
    IsMetadata,
}

const fn variable(name: &'static str, meaning: &'static str, value: Value) -> UnitVariable {
    UnitVariable { name, meaning, value }
}

/// All variables. Ages are in host writes plus one, never 0.
pub const UNIT_VARIABLES: &[UnitVariable] = &[
    variable("age", "age since the host last wrote the unit; since the drive was new, if never", Value::Age),
    variable("interval", "age just before that write", Value::Interval),
    variable("writes", "host writes of the unit so far", Value::Writes),
    variable("copies", "relocations since the host last wrote it", Value::Copies),
    variable("stream", "stream last chosen for it; -1 if none has been", Value::Stream),
    variable("is_copy", "1 if it is relocated, 0 if the host writes it", Value::IsCopy),
    variable("address", "logical address as a share of the drive, from 0 to below 1", Value::Address),
    variable("handle", "placement handle of its last host write, this one included", Value::Handle),
    variable("is_metadata", "1 if that write was hinted as metadata, else 0", Value::IsMetadata),
];

/// A placement by a formula over [`UNIT_VARIABLES`].
#[derive(Clone, Debug, State)]
pub struct FormulaPlacement {
    #[state(skip)]
    expression: Expression,
    #[state(skip)]
    values: Vec<Value>,
    #[state(skip)]
    stack: Stack<1>,
    #[state(skip)]
    layout: StreamLayout,
    #[state(skip)]
    logical_units: u32,
    clock: u64,
    /// Time of the last host write; 0 if never written. Tables by logical unit are empty if unused.
    #[state(table)]
    last_write: Vec<u64>,
    #[state(table)]
    interval: Vec<u64>,
    #[state(table)]
    writes: Vec<u32>,
    #[state(table)]
    copies: Vec<u16>,
    /// Stream plus one; 0 if none.
    #[state(table)]
    stream: Vec<u8>,
    #[state(table)]
    handle: Vec<u8>,
    #[state(table)]
    is_metadata: Vec<bool>,
}

impl FormulaPlacement {
    /// A placement by `text` into at most `streams` streams, 1 or more. `handles` is the number of placement
    /// handles, if used.
    pub fn new(text: &str, streams: u8, handles: u8, logical_units: u32) -> Result<Self, FormulaError> {
        let (expression, values) = Self::parse(text)?;
        let layout = layout(&expression, &values, streams, handles);
        let table = |is_needed: bool| if is_needed { logical_units as usize } else { 0 };
        let is_used = |value| table(values.contains(&value));
        Ok(Self {
            stack: expression.stack(),
            layout,
            logical_units,
            clock: 0,
            last_write: vec![0; table(needs_time(&values))],
            interval: vec![0; is_used(Value::Interval)],
            writes: vec![0; is_used(Value::Writes)],
            copies: vec![0; is_used(Value::Copies)],
            stream: vec![0; is_used(Value::Stream)],
            handle: vec![0; is_used(Value::Handle)],
            is_metadata: vec![false; is_used(Value::IsMetadata)],
            expression,
            values,
        })
    }

    /// Streams of `text`, at most `streams`. `handles` is the number of placement handles, if used.
    pub fn layout(text: &str, streams: u8, handles: u8) -> Result<StreamLayout, FormulaError> {
        let (expression, values) = Self::parse(text)?;
        Ok(layout(&expression, &values, streams, handles))
    }

    /// Checks that `text` is a formula.
    pub fn check(text: &str) -> Result<(), FormulaError> {
        Self::parse(text).map(|_| ())
    }

    /// True if `text` is a formula that uses the variable `name`.
    pub fn uses(text: &str, name: &str) -> bool {
        Self::parse(text).is_ok_and(|(expression, _)| expression.variables().iter().any(|used| used == name))
    }

    /// Host memory of the placement by `text`, in bytes.
    pub fn bytes(text: &str, logical_units: u32) -> u64 {
        let Ok((_, values)) = Self::parse(text) else { return 0 };
        let per_unit = |value: &Value| match value {
            Value::Interval => 8,
            Value::Writes => 4,
            Value::Copies => 2,
            Value::Stream | Value::Handle | Value::IsMetadata => 1,
            Value::Age | Value::IsCopy | Value::Address => 0,
        };
        let time = if needs_time(&values) { 8 } else { 0 };
        u64::from(logical_units) * (time + values.iter().map(per_unit).sum::<u64>())
    }

    fn parse(text: &str) -> Result<(Expression, Vec<Value>), FormulaError> {
        let names: Vec<&str> = UNIT_VARIABLES.iter().map(|variable| variable.name).collect();
        let expression = parse(text, &names, "units")?;
        let named = |name: &String| UNIT_VARIABLES.iter().find(|variable| variable.name == name.as_str());
        let values = expression.variables().iter().filter_map(named).map(|variable| variable.value).collect();
        Ok((expression, values))
    }

    fn choose(&mut self, lpn: Lpn, is_copy: bool, (first, end): (u8, u8)) -> StreamId {
        let at = lpn.index();
        let age = |since: u64| (self.clock + 1 - since) as f64;
        let value_of = |value| match value {
            Value::Age => age(self.last_write[at]),
            Value::Interval if self.last_write[at] == 0 => age(0),
            Value::Interval => self.interval[at] as f64,
            Value::Writes => f64::from(self.writes[at]),
            Value::Copies => f64::from(self.copies[at]),
            Value::Stream => f64::from(self.stream[at]) - 1.0,
            Value::IsCopy => f64::from(is_copy),
            Value::Address => f64::from(lpn.get()) / f64::from(self.logical_units),
            Value::Handle => f64::from(self.handle[at]),
            Value::IsMetadata => f64::from(self.is_metadata[at]),
        };
        let values = &self.values;
        let [value] = *self.expression.evaluate(&mut self.stack, |at, out| out[0] = value_of(values[at]));
        // A cast rounds towards 0 and turns "not a number" into 0.
        let stream = StreamId::new((value as u8).clamp(first, end - 1));
        if let Some(chosen) = self.stream.get_mut(at) {
            *chosen = stream.get() + 1;
        }
        stream
    }
}

fn needs_time(values: &[Value]) -> bool {
    values.contains(&Value::Age) || values.contains(&Value::Interval)
}

fn layout(expression: &Expression, values: &[Value], streams: u8, handles: u8) -> StreamLayout {
    let last = f64::from(streams.saturating_sub(1));
    // Larger than any count or age.
    let most = u64::MAX as f64;
    let range = |is_copy: f64| {
        let bounds = expression.bounds(|at| match values[at] {
            Value::Age | Value::Interval => (1.0, most),
            Value::Writes => (0.0, most),
            Value::Copies => (0.0, f64::from(u16::MAX)),
            Value::Stream => (-1.0, last),
            Value::IsCopy => (is_copy, is_copy),
            Value::Address | Value::IsMetadata => (0.0, 1.0),
            Value::Handle => (0.0, f64::from(handles.saturating_sub(1))),
        });
        bounds
            .map_or((0, streams), |(low, high)| (low.clamp(0.0, last) as u8, high.clamp(0.0, last) as u8 + 1))
    };
    let handles = if values.contains(&Value::Handle) { handles } else { 1 };
    StreamLayout { handles, ..StreamLayout::new(range(0.0).1, range(1.0)) }
}

impl Placement for FormulaPlacement {
    fn relevant(&self, tag: DataTag) -> DataTag {
        let handle = if self.handle.is_empty() { 0 } else { tag.handle };
        let hint = if self.is_metadata.is_empty() { Hint::None } else { tag.hint };
        DataTag { hint, handle }
    }

    fn for_write(&mut self, lpn: Lpn, context: WriteContext, _: u64) -> StreamId {
        let at = lpn.index();
        if let Some(handle) = self.handle.get_mut(at) {
            *handle = u8::try_from(context.tag.handle).unwrap_or(u8::MAX);
        }
        if let Some(is_metadata) = self.is_metadata.get_mut(at) {
            *is_metadata = context.tag.hint == Hint::Metadata;
        }
        // The write is recorded after the choice, which describes the unit before it.
        let stream = self.choose(lpn, false, (0, self.layout.host));
        if let Some(last) = self.last_write.get(at)
            && let Some(interval) = self.interval.get_mut(at)
        {
            *interval = self.clock + 1 - last;
        }
        self.clock += 1;
        if let Some(last) = self.last_write.get_mut(at) {
            *last = self.clock;
        }
        if let Some(writes) = self.writes.get_mut(at) {
            *writes = writes.saturating_add(1);
        }
        if let Some(copies) = self.copies.get_mut(at) {
            *copies = 0;
        }
        stream
    }

    fn for_copy(&mut self, lpn: Lpn, _: &CopyContext) -> StreamId {
        let stream = self.choose(lpn, true, self.layout.copies);
        if let Some(copies) = self.copies.get_mut(lpn.index()) {
            *copies = copies.saturating_add(1);
        }
        stream
    }

    fn after_cut(&self) -> Box<dyn Placement> {
        let mut new = self.clone();
        new.clock = 0;
        new.last_write.fill(0);
        new.interval.fill(0);
        new.writes.fill(0);
        new.copies.fill(0);
        new.stream.fill(0);
        new.handle.fill(0);
        new.is_metadata.fill(false);
        Box::new(new)
    }

    by_state!();
}

#[cfg(test)]
mod tests {
    use super::*;
    use strobe_types::BlockId;

    const HOST: WriteContext = WriteContext::HOST;
    const FROM: CopyContext = CopyContext { block: BlockId::new(0), stream: None, tick: 9 };

    fn placement(text: &str) -> FormulaPlacement {
        FormulaPlacement::new(text, 6, 4, 100).unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    fn history(text: &str) -> [u8; 5] {
        let mut by = placement(text);
        let mut write = |lpn| by.for_write(Lpn::new(lpn), HOST, 0).get();
        let first = write(50);
        write(1);
        write(2);
        let (second, third) = (write(50), write(50));
        let mut copy = || by.for_copy(Lpn::new(50), &FROM).get();
        [first, second, third, copy(), copy()]
    }

    #[test]
    fn variables_are_those_of_the_unit_before_it_is_written_or_relocated() {
        assert_eq!(history("age"), [1, 3, 1, 1, 1]);
        assert_eq!(history("interval"), [1, 1, 3, 1, 1]);
        assert_eq!(history("writes"), [0, 1, 2, 3, 3]);
        assert_eq!(history("copies + 3 * is_copy"), [0, 0, 0, 3, 4]);
        assert_eq!(history("stream + 2"), [1, 3, 5, 5, 5]);
        assert_eq!(history("address * 4"), [2; 5]);
    }

    #[test]
    fn a_write_counts_in_the_collection_that_it_causes() {
        for (text, expected) in [("writes", 2), ("age", 1), ("interval", 2), ("4 * is_copy + copies", 4)] {
            let mut by = placement(text);
            by.for_write(Lpn::new(7), HOST, 0);
            by.for_copy(Lpn::new(7), &FROM);
            by.for_write(Lpn::new(8), HOST, 0);
            // It needs a block, and the victim holds the unit it replaces.
            by.for_write(Lpn::new(7), HOST, 0);
            assert_eq!(by.for_copy(Lpn::new(7), &FROM).get(), expected, "{text}");
        }
    }

    #[test]
    fn the_handle_and_the_hint_are_those_of_the_write_and_stay() {
        let mut by = placement("handle + is_metadata * 2");
        let tag = DataTag { hint: Hint::Metadata, handle: 3 };
        assert_eq!(by.relevant(tag), tag);
        assert_eq!(placement("age").relevant(tag), DataTag::default());
        let context = WriteContext { tag, ..HOST };
        assert_eq!(by.for_write(Lpn::new(7), context, 0).get(), 5);
        assert_eq!(by.for_copy(Lpn::new(7), &FROM).get(), 5);
        assert_eq!(by.for_write(Lpn::new(7), HOST, 0).get(), 0);
    }

    #[test]
    fn values_are_rounded_down_and_limited_and_what_is_no_number_is_stream_0() {
        assert_eq!(history("writes * 0.7"), [0, 0, 1, 2, 2]);
        assert_eq!(history("5 - 4 * writes"), [5, 1, 0, 0, 0]);
        assert_eq!(history("1 / writes"), [5, 1, 0, 0, 0]);
        assert_eq!(history("(writes - 1) / (writes - 1) + 2"), [3, 0, 3, 3, 3]);
    }

    #[test]
    fn streams_follow_from_the_formula() {
        for (text, host, copies) in [
            ("is_copy", 1, (1, 2)),
            ("stream + 1 - 2 * is_copy", 6, (0, 5)),
            ("min(age / 1000, 1) * (1 - is_copy) + is_copy * 2", 2, (2, 3)),
            ("min(age / 1000, 1) * (1 - is_copy) + is_copy * (2 + min(age / 4000, 3))", 2, (2, 6)),
            ("log(writes)", 6, (0, 6)),
            ("handle * (1 - is_copy) + 4 * is_copy", 4, (4, 5)),
            ("100 + writes", 6, (5, 6)),
        ] {
            let layout = FormulaPlacement::layout(text, 6, 4).expect("a formula");
            assert_eq!((layout.host, layout.copies), (host, copies), "{text}");
        }
        assert_eq!(placement("is_copy").layout.handles, 1);
        assert_eq!(placement("handle").layout.handles, 4);
    }

    #[test]
    fn memory_is_that_of_the_variables_in_use() {
        for (text, bytes) in [("is_copy + address", 0), ("stream", 1), ("age", 8), ("interval + age", 16)] {
            assert_eq!(FormulaPlacement::bytes(text, 100), 100 * bytes, "{text}");
        }
        let all: Vec<&str> = UNIT_VARIABLES.iter().map(|variable| variable.name).collect();
        assert_eq!(FormulaPlacement::bytes(&all.join("+"), 1), 25);
    }

    #[test]
    fn a_wrong_formula_names_the_variables() {
        let error = FormulaPlacement::check("age * wirtes").expect_err("a slip");
        assert_eq!(error.unknown_name(), Some("wirtes"));
        let list =
            "variables are age, interval, writes, copies, stream, is_copy, address, handle, is_metadata";
        assert!(error.to_string().ends_with(list), "{error}");
        let error = FormulaPlacement::check("2").expect_err("constant");
        assert!(
            error.to_string().starts_with("it uses no variable, so all units get the same value"),
            "{error}"
        );
    }
}
