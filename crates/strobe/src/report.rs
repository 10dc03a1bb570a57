//! Terminal report.
