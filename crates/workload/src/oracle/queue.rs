use super::proper_share;

/// Mean waiting time before service in an M/D/1 queue: Poisson arrivals, one server, constant service time S.
///
/// It is ρ·S / (2(1 − ρ)), where `utilisation` ρ is the arrival rate times S (Pollaczek–Khinchine with zero
/// variance). Exact for unbounded queues; `service_ns` must not be negative.
pub fn md1_wait_ns(utilisation: f64, service_ns: f64) -> Option<f64> {
    let rho = proper_share(utilisation)?;
    (service_ns >= 0.0 && service_ns.is_finite()).then(|| rho * service_ns / (2.0 * (1.0 - rho)))
}
