//! Apportioning a count by weights when ranges are not known.

/// Apportions `total` in proportion to `weights`; the rounding goes to the largest remainders.
///
/// The shares add up to `total` exactly; of equal remainders the earlier weight comes first.
///
/// Source: `docs/protocol/account.md`, rule 10 (the method of Hamilton).
///
/// # Panics
/// If `total` is not zero and no weight is positive.
pub(crate) fn apportion(total: u64, weights: &[u64]) -> Vec<u64> {
    let sum: u128 = weights.iter().copied().map(u128::from).sum();
    if total == 0 {
        return vec![0; weights.len()];
    }
    assert!(sum > 0, "a share needs somebody to go to");
    let exact = |weight: u64| u128::from(total) * u128::from(weight);
    let mut shares: Vec<u64> = weights
        .iter()
        .map(|&weight| u64::try_from(exact(weight) / sum).expect("a share is not larger than the total"))
        .collect();
    let mut by_remainder: Vec<usize> = (0..weights.len()).collect();
    by_remainder.sort_by_key(|&index| core::cmp::Reverse(exact(weights[index]) % sum));
    let left = total - shares.iter().sum::<u64>();
    let left = usize::try_from(left).expect("fewer are left than there are weights");
    for &index in by_remainder.iter().take(left) {
        shares[index] += 1;
    }
    shares
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_always_add_up() {
        assert_eq!(apportion(10, &[1, 1, 1]), [4, 3, 3]);
        assert_eq!(apportion(7, &[0, 2, 1]), [0, 5, 2]);
        assert_eq!(apportion(u64::MAX, &[u64::MAX, u64::MAX]).iter().sum::<u64>(), u64::MAX);
        assert_eq!(apportion(0, &[]), []);
    }

    #[test]
    fn larger_remainders_are_served_first() {
        // 5 × 3/7 = 2.14…, 5 × 4/7 = 2.86…: the second is rounded up.
        assert_eq!(apportion(5, &[3, 4]), [2, 3]);
    }
}
