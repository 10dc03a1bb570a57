use schemars::JsonSchema;
use serde::Serialize;
use strobe_nand::{Class, Occupancy};

/// Use of the dies' time. An operation holds its die from its start until the last byte has left the die or
/// the array is done.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct DiesResult {
    /// Number of dies.
    pub count: u32,
    /// Share of the dies' time during which they were held, from 0 to 1; null if the window has no length.
    pub busy: Option<f64>,
    /// Time during which dies were held, summed over all dies, in ns.
    pub held_ns: u64,
    /// Held time by class of operation.
    pub by_class: HeldBy,
    /// Suspensions of programs and erases for a read.
    pub suspends: u64,
}

/// Time during which dies were held, by class of operation, in ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct HeldBy {
    /// Reads that a host command waits for, map lookups included.
    pub host_read: u64,
    /// Programs of host data and of the map.
    pub host_program: u64,
    /// Reads for garbage collection, merges and wear levelling.
    pub background_read: u64,
    /// Programs for garbage collection, merges and wear levelling.
    pub background_program: u64,
    /// Erases.
    pub erase: u64,
}

impl HeldBy {
    /// Held time of each class, with its name.
    pub fn named(&self) -> [(&'static str, u64); Class::ALL.len()] {
        let HeldBy { host_read, host_program, background_read, background_program, erase } = *self;
        [
            ("host reads", host_read),
            ("host programs", host_program),
            ("copies' reads", background_read),
            ("copies' programs", background_program),
            ("erases", erase),
        ]
    }
}

impl DiesResult {
    /// Result for `dies` dies in a window of `virtual_ns`.
    pub fn of(occupancy: &Occupancy, dies: u32, virtual_ns: u64) -> Self {
        let held_ns = occupancy.total_ns();
        let time_ns = virtual_ns as f64 * f64::from(dies);
        Self {
            count: dies,
            busy: (virtual_ns > 0).then(|| held_ns as f64 / time_ns),
            held_ns,
            by_class: HeldBy {
                host_read: occupancy.of(Class::HostRead),
                host_program: occupancy.of(Class::HostProgram),
                background_read: occupancy.of(Class::BackgroundRead),
                background_program: occupancy.of(Class::BackgroundProgram),
                erase: occupancy.of(Class::Erase),
            },
            suspends: occupancy.suspends,
        }
    }
}
