//! Slots of a ring: its counts, in place and four bytes each as long as all are small.
//!
//! Most rings have at most the default number of sub-windows and counts far below 2^32. They need no memory of their
//! own, so a look at a counter follows one pointer less. A greater count makes all slots wide, until the ring is empty
//! again.

/// Maximum number of slots in place: those of a window with the default number of sub-windows, and the one before it.
const NARROW_LEN_MAX: usize = 13;

#[derive(Clone, Debug)]
pub(super) enum RingSlots {
    /// In place. Those behind the ring's length are 0.
    Narrow([u32; NARROW_LEN_MAX]),
    Wide(Box<[u64]>),
}

impl RingSlots {
    pub(super) fn new(len: usize) -> Self {
        if len <= NARROW_LEN_MAX { Self::Narrow([0; NARROW_LEN_MAX]) } else { Self::Wide(vec![0; len].into()) }
    }

    pub(super) fn clear(&mut self) {
        match self {
            Self::Wide(slots) if slots.len() > NARROW_LEN_MAX => slots.fill(0),
            _ => *self = Self::Narrow([0; NARROW_LEN_MAX]),
        }
    }

    #[inline]
    pub(super) fn get(&self, slot: usize) -> u64 {
        match self {
            Self::Narrow(slots) => slots[slot].into(),
            Self::Wide(slots) => slots[slot],
        }
    }

    #[inline]
    pub(super) fn set(&mut self, slot: usize, units: u64) {
        match (&mut *self, u32::try_from(units)) {
            (Self::Narrow(slots), Ok(units)) => slots[slot] = units,
            (Self::Wide(slots), _) => slots[slot] = units,
            (Self::Narrow(_), Err(_)) => self.widen()[slot] = units,
        }
    }

    #[inline]
    pub(super) fn sum(&self) -> u64 {
        match self {
            Self::Narrow(slots) => slots.iter().map(|units| u64::from(*units)).sum(),
            Self::Wide(slots) => slots.iter().fold(0, |sum, units| sum.saturating_add(*units)),
        }
    }

    #[cold]
    fn widen(&mut self) -> &mut [u64] {
        if let Self::Narrow(slots) = self {
            *self = Self::Wide(slots.iter().map(|units| u64::from(*units)).collect());
        }
        let Self::Wide(slots) = self else { unreachable!("narrow slots have just become wide") };
        slots
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
            let (mut slots, mut expected) = (RingSlots::new(len), vec![0; len]);
            for (number, (slot, units)) in changes.into_iter().enumerate() {
                if number == clear_at {
                    slots.clear();
                    expected.fill(0);
                }
                slots.set(slot % len, units);
                expected[slot % len] = units;
                prop_assert!((0..len).all(|slot| slots.get(slot) == expected[slot]));
                prop_assert_eq!(slots.sum(), expected.iter().sum::<u64>());
            }
        }
    }

    #[test]
    fn a_window_with_the_default_number_of_sub_windows_has_its_slots_in_place() {
        let mut slots = RingSlots::new(13);
        slots.set(12, u32::MAX.into());
        assert!(matches!(slots, RingSlots::Narrow(_)));
        slots.set(0, 1 << 32);
        assert!(matches!(slots, RingSlots::Wide(_)));
        slots.clear();
        assert!(matches!(slots, RingSlots::Narrow(_)));
        assert_eq!(size_of::<RingSlots>(), 56);
    }
}
