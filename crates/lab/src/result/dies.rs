//! Use of the dies' time.
//!
//! [`Occupancy`] counts in an array by class; [`HeldBy`] gives each class a key and its documentation.

use schemars::JsonSchema;
use serde::Serialize;
use strobe_nand::{Class, Occupancy};

/// Use of the dies' time within the measured window. An operation holds its die from its start until the last
/// byte has left the die or the array is done.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct DiesResult {
    /// Dies of the drive.
    pub count: u32,
    /// Share of their time for which they were held, from 0 to 1; null if the window has no length.
    pub busy: Option<f64>,
    /// Time for which they were held, added up over all of them, in ns.
    pub held_ns: u64,
    /// Held time by class of operation.
    pub by_class: HeldBy,
    /// Programs and erases that were suspended for a read, counted each time.
    pub suspends: u64,
}

/// Time for which dies were held, by urgency, in ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct HeldBy {
    /// Reads that a host waits for, or that find where its data is.
    pub host_read: u64,
    /// Programs of what a host has sent, and of the map.
    pub host_program: u64,
    /// Reads for garbage collection, merges and wear levelling.
    pub background_read: u64,
    /// Their programs.
    pub background_program: u64,
    /// Erases.
    pub erase: u64,
}

impl HeldBy {
    /// Each with the name of its class.
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
    /// Of `dies` dies in a window of `virtual_ns`.
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
