//! File workloads on their file systems, judged by others: `fsck.fat`, a naive model, `fatfs` on the bare
//! image. What `fsck.fat` has to say is skipped without Debian's package dosfstools.

mod power_cut;
mod random;
mod space;
mod support;
mod workloads;
