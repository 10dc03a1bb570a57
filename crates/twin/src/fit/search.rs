//! Least-squares search by the Levenberg–Marquardt method, with derivatives from finite differences.
//!
//! Each round:
//!
//! 1. Evaluate a neighbour of the best point for each parameter: the Jacobian.
//! 2. Evaluate one step for each factor of [`DAMPING`].
//! 3. Keep the best of these points and its damping. Without improvement, raise the damping and halve the
//!    differences.
//!
//! Every point is evaluated with the same random numbers: differences come from parameters, not from chance.

/// Step of a finite difference, in the logarithm of a parameter.
pub(super) const DIFFERENCE: f64 = 0.12;
/// Largest change of a logarithm in one step.
const STEP_MAX: f64 = 0.8;
const DAMPING: [f64; 4] = [0.1, 1.0, 10.0, 100.0];

#[derive(Clone, Debug)]
pub(super) struct Point {
    pub(super) at: Vec<f64>,
    pub(super) residuals: Vec<f64>,
}

impl Point {
    pub(super) fn cost(&self) -> f64 {
        self.residuals.iter().map(|r| r * r).sum()
    }
}

pub(super) trait Problem {
    type Error;

    fn range(&self, parameter: usize) -> (f64, f64);

    fn difference_point(&self, _parameter: usize, at: f64, difference: f64) -> f64 {
        at + difference
    }

    fn residuals(&mut self, points: &[Vec<f64>]) -> Result<Vec<Vec<f64>>, Self::Error>;

    /// Reports a new best point. False ends the search.
    fn better(&mut self, _point: &Point) -> bool {
        true
    }
}

pub(super) type Slopes = Vec<Vec<f64>>;

pub(super) fn jacobian<P: Problem>(
    problem: &mut P,
    point: &Point,
    difference: f64,
) -> Result<(Slopes, Vec<Point>), P::Error> {
    let moved = |at: usize| {
        let (low, high) = problem.range(at);
        let mut x = point.at.clone();
        // At the border of the range, step in the other direction.
        let there = problem.difference_point(at, x[at], difference);
        let there = if there != x[at] && (low..=high).contains(&there) {
            there
        } else {
            problem.difference_point(at, x[at], -difference)
        };
        x[at] = there.clamp(low, high);
        x
    };
    let points: Vec<Vec<f64>> = (0..point.at.len()).map(moved).collect();
    let residuals = problem.residuals(&points)?;
    let column = |at: usize| -> Vec<f64> {
        let step = points[at][at] - point.at[at];
        let change = residuals[at].iter().zip(&point.residuals).map(|(there, here)| there - here);
        change.map(|change| if step == 0.0 { 0.0 } else { change / step }).collect()
    };
    let slopes = (0..point.at.len()).map(column).collect();
    let points = points.into_iter().zip(residuals).map(|(at, residuals)| Point { at, residuals });
    Ok((slopes, points.collect()))
}

pub(super) fn search<P: Problem>(problem: &mut P, start: Vec<f64>, rounds: u32) -> Result<Point, P::Error> {
    let residuals = problem.residuals(std::slice::from_ref(&start))?.remove(0);
    let mut best = Point { at: start, residuals };
    if !problem.better(&best) {
        return Ok(best);
    }
    let (mut damping, mut difference) = (1.0, DIFFERENCE);
    for _ in 0..rounds {
        let (slopes, nearby) = jacobian(problem, &best, difference)?;
        // Alternate the side of the differences.
        difference = -difference;
        let steps = DAMPING.map(|factor| step(&slopes, &best.residuals, damping * factor));
        let points: Vec<Vec<f64>> = steps.iter().map(|step| moved(problem, &best.at, step)).collect();
        let residuals = problem.residuals(&points)?;
        let found = points.into_iter().zip(residuals).zip(DAMPING);
        let found = found.map(|((at, residuals), factor)| (Point { at, residuals }, Some(factor)));
        // Residuals jump, for example at a full buffer. A neighbour from the Jacobian may then be better than
        // the computed steps.
        let found = found.chain(nearby.into_iter().map(|point| (point, None)));
        let next = found.min_by(|(a, _), (b, _)| a.cost().total_cmp(&b.cost()));
        let Some((next, factor)) = next.filter(|(next, _)| next.cost() < best.cost()) else {
            // No improvement: retry with more damping and smaller differences.
            if difference.abs() < DIFFERENCE / 3.0 {
                break;
            }
            (damping, difference) = (damping * 10.0, difference / 2.0);
            continue;
        };
        damping = factor.map_or(damping, |factor| damping * factor).clamp(1e-3, 1e4);
        best = next;
        if !problem.better(&best) {
            break;
        }
    }
    Ok(best)
}

fn moved<P: Problem>(problem: &P, from: &[f64], step: &[f64]) -> Vec<f64> {
    let go = |(at, (&from, &step)): (usize, (&f64, &f64))| {
        let (low, high) = problem.range(at);
        (from + step.clamp(-STEP_MAX, STEP_MAX)).clamp(low, high)
    };
    from.iter().zip(step).enumerate().map(go).collect()
}

/// Solves (JᵀJ + λ·diag(JᵀJ)) step = −Jᵀr; `slopes` has the columns of J.
fn step(slopes: &[Vec<f64>], residuals: &[f64], damping: f64) -> Vec<f64> {
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    let n = slopes.len();
    let mut matrix: Vec<Vec<f64>> =
        slopes.iter().map(|a| slopes.iter().map(|b| dot(a, b)).collect()).collect();
    let mut right: Vec<f64> = slopes.iter().map(|a| -dot(a, residuals)).collect();
    for (at, row) in matrix.iter_mut().enumerate() {
        // Keeps the matrix regular: a parameter without effect stays unchanged.
        row[at] += damping * row[at] + 1e-6;
    }
    // Symmetric and positive definite: Gaussian elimination needs no pivoting.
    for pivot in 0..n {
        for row in pivot + 1..n {
            let (above, below) = matrix.split_at_mut(row);
            let factor = below[0][pivot] / above[pivot][pivot];
            below[0].iter_mut().zip(&above[pivot]).for_each(|(entry, above)| *entry -= factor * above);
            right[row] -= factor * right[pivot];
        }
    }
    let mut solution = vec![0.0; n];
    for row in (0..n).rev() {
        let known: f64 = (row + 1..n).map(|column| matrix[row][column] * solution[column]).sum();
        solution[row] = (right[row] - known) / matrix[row][row];
    }
    solution
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Curve(Vec<(f64, f64)>);

    impl Problem for Curve {
        type Error = std::convert::Infallible;

        fn range(&self, _: usize) -> (f64, f64) {
            (-3.0, 3.0)
        }

        fn residuals(&mut self, points: &[Vec<f64>]) -> Result<Vec<Vec<f64>>, Self::Error> {
            let curve = |x: &[f64], t: f64| x[0] + libm::exp(x[1]) * t;
            Ok(points.iter().map(|x| self.0.iter().map(|&(t, y)| curve(x, t) - y).collect()).collect())
        }
    }

    #[test]
    fn finds_what_made_the_numbers() {
        let truth = |t: f64| 0.7 + libm::exp(-1.2) * t;
        let mut curve = Curve((0..20).map(|t| (f64::from(t), truth(f64::from(t)))).collect());
        let found = search(&mut curve, vec![0.0, 0.0, 0.5], 60).expect("no error");
        assert!(found.cost() < 1e-6, "{found:?}");
        assert!((found.at[0] - 0.7).abs() < 1e-3 && (found.at[1] + 1.2).abs() < 1e-3, "{found:?}");
        assert_eq!(found.at[2], 0.5, "what nothing depends on stays where it is");
    }

    #[test]
    fn stays_in_range() {
        let mut curve = Curve((0..20).map(|t| (f64::from(t), 9.0)).collect());
        let found = search(&mut curve, vec![0.0, 0.0, 0.0], 60).expect("no error");
        assert!(found.at.iter().all(|x| (-3.0..=3.0).contains(x)), "{found:?}");
        assert_eq!(found.at[0], 3.0);
    }
}
