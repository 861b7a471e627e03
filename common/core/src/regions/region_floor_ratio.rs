//! Floors of regions: the part of each global quota that a region has without any grant.

use super::Region;

/// Floor of a region for which the rules state none, in millionths of a quota.
pub const FLOOR_PPM_DEFAULT: u32 = 10_000;
/// Maximum number of regions of a rule set.
pub const REGIONS_LEN_MAX: usize = 64;

/// Region of a rule set, and the part of each global quota that is reserved for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegionFloorRatio {
    /// Name of the region.
    pub region: Region,
    /// Part of a quota, in millionths.
    pub floor_ppm: u32,
}

impl RegionFloorRatio {
    /// Returns the units of a quota that are reserved for the region: at least one.
    #[must_use]
    pub fn units_of(&self, quota: u64) -> u64 {
        let units = u128::from(quota) * u128::from(self.floor_ppm) / 1_000_000;
        u64::try_from(units).unwrap_or(u64::MAX).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_floor_is_a_part_of_the_quota_and_at_least_one_unit() {
        for (quota, floor_ppm, expected) in
            [(1_000, 100_000, 100), (100, 10_000, 1), (19, 100_000, 1), (7, 0, 1), (u64::MAX, 1_000_000, u64::MAX)]
        {
            assert_eq!(RegionFloorRatio { region: "eu".into(), floor_ppm }.units_of(quota), expected);
        }
    }
}
