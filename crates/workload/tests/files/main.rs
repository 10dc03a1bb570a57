//! File workloads on their file systems, verified independently: by `fsck.fat`, a naive model, and
//! `fatfs` on the bare image. Checks by `fsck.fat` are skipped without Debian's package dosfstools.

mod power_cut;
mod random;
mod space;
mod support;
mod workloads;
