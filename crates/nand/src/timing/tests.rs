//! Times of operations and pairs of them, to the nanosecond.
