//! Counts of a ring: in place and four bytes each as long as all are small.
//!
//! Most rings have at most the default number of sub-windows and counts far below 2^32. They need no memory of their
//! own, so a look at a counter follows one pointer less. A greater count makes all counts wide, until the ring is empty
//! again.

/// Maximum number of counts in place: those of a window with the default number of sub-windows, and the one before it.
const NARROW_LEN_MAX: usize = 13;

#[derive(Clone, Debug)]
pub(super) enum RingCounts {
    /// In place. Those behind the ring's length are 0.
    Narrow([u32; NARROW_LEN_MAX]),
    Wide(Box<[u64]>),
}

impl RingCounts {
    pub(super) fn new(len: usize) -> Self {
        if len <= NARROW_LEN_MAX { Self::Narrow([0; NARROW_LEN_MAX]) } else { Self::Wide(vec![0; len].into()) }
    }

    pub(super) fn clear(&mut self) {
        match self {
            Self::Wide(counts) if counts.len() > NARROW_LEN_MAX => counts.fill(0),
            _ => *self = Self::Narrow([0; NARROW_LEN_MAX]),
        }
    }

    #[inline]
    pub(super) fn get(&self, index: usize) -> u64 {
        match self {
            Self::Narrow(counts) => counts[index].into(),
            Self::Wide(counts) => counts[index],
        }
    }

    #[inline]
    pub(super) fn set(&mut self, index: usize, units: u64) {
        match (&mut *self, u32::try_from(units)) {
            (Self::Narrow(counts), Ok(units)) => counts[index] = units,
            (Self::Wide(counts), _) => counts[index] = units,
            (Self::Narrow(_), Err(_)) => self.widen()[index] = units,
        }
    }

    #[inline]
    pub(super) fn sum(&self) -> u64 {
        match self {
            Self::Narrow(counts) => counts.iter().map(|units| u64::from(*units)).sum(),
            Self::Wide(counts) => counts.iter().fold(0, |sum, units| sum.saturating_add(*units)),
        }
    }

    #[cold]
    fn widen(&mut self) -> &mut [u64] {
        if let Self::Narrow(counts) = self {
            *self = Self::Wide(counts.iter().map(|units| u64::from(*units)).collect());
        }
        let Self::Wide(counts) = self else { unreachable!("narrow counts have just become wide") };
        counts
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn slots_of_any_width_hold_what_was_set(
            len in 1_usize..20,
            changes in prop::collection::vec((0_usize..20, prop_oneof![0_u64..5, (1_u64 << 32) - 2..1 << 33]), 0..40),
            clear_at in 0_usize..40,
        ) {
            let (mut counts, mut expected) = (RingCounts::new(len), vec![0; len]);
            for (number, (index, units)) in changes.into_iter().enumerate() {
                if number == clear_at {
                    counts.clear();
                    expected.fill(0);
                }
                counts.set(index % len, units);
                expected[index % len] = units;
                prop_assert!((0..len).all(|index| counts.get(index) == expected[index]));
                prop_assert_eq!(counts.sum(), expected.iter().sum::<u64>());
            }
        }
    }

    #[test]
    fn a_window_with_the_default_number_of_sub_windows_has_its_slots_in_place() {
        let mut counts = RingCounts::new(13);
        counts.set(12, u32::MAX.into());
        assert!(matches!(counts, RingCounts::Narrow(_)));
        counts.set(0, 1 << 32);
        assert!(matches!(counts, RingCounts::Wide(_)));
        counts.clear();
        assert!(matches!(counts, RingCounts::Narrow(_)));
        assert_eq!(size_of::<RingCounts>(), 56);
    }
}
