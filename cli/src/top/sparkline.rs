//! Sparklines: one block for each of the last seconds, on one scale for admitted and denied calls.

use serde_json::Value;

use super::api::{CLOSED_AFTER_MS, SECONDS};
use super::cells::{Glyphs, compact, elements};

/// Width of the name of a sparkline.
const NAME: usize = 9;
/// Width of the number behind it.
const NUMBER: usize = 10;

/// Returns the sparklines of admitted and of denied calls, in at most this number of columns.
pub(super) fn sparklines(series: &Value, now_ms: u64, columns: usize, glyphs: Glyphs) -> [String; 2] {
    let seconds = SECONDS.min(columns.saturating_sub(NAME + NUMBER).max(1));
    let counts = [1, 2].map(|field| counts(series, field, now_ms, seconds));
    let max = counts.iter().flatten().copied().max().unwrap_or_default();
    let shown = |name: &str, counts: &[u64]| {
        let blocks: String = counts.iter().map(|count| block(*count, max, glyphs)).collect();
        let last = compact(counts.last().copied().unwrap_or_default());
        format!("{name:<NAME$}{blocks} {last:>6}/s")
    };
    [shown("admitted", &counts[0]), shown("denied", &counts[1])]
}

/// Returns the calls of each of the last closed seconds; a second that is not in the series has none.
fn counts(series: &Value, field: usize, now_ms: u64, seconds: usize) -> Vec<u64> {
    let last = now_ms.saturating_sub(CLOSED_AFTER_MS) / 1_000;
    let mut counts = vec![0; seconds];
    for point in elements(&series["points"]) {
        let (Some(at_ms), Some(count)) = (point[0].as_u64(), point[field].as_u64()) else { continue };
        let back = last.checked_sub(at_ms / 1_000).and_then(|back| usize::try_from(back).ok());
        if let Some(place) = back.and_then(|back| seconds.checked_sub(back + 1)) {
            counts[place] = count;
        }
    }
    counts
}

/// Returns the block of a number of calls. A single call is visible beside any maximum.
fn block(count: u64, max: u64, glyphs: Glyphs) -> char {
    if count == 0 {
        return ' ';
    }
    let blocks = glyphs.blocks();
    let height = (u128::from(count) * blocks.len() as u128).div_ceil(u128::from(max.max(1)));
    blocks[usize::try_from(height).unwrap_or(1).clamp(1, blocks.len()) - 1]
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_last_closed_second_is_on_the_right() {
        let utf8 = Glyphs::of_environment(|_| Some("C.UTF-8".to_owned()));
        // The newest second is not closed, and an old one is out of view.
        let points = json!([
            [90_000, 8, 0, 0, 8],
            [96_000, 800, 1, 0, 9],
            [97_000, 400, 0, 0, 4],
            [98_000, 100, 50, 0, 1],
            [100_000, 999, 9, 0, 9]
        ]);
        let series = json!({ "points": points });
        let narrow = sparklines(&series, 100_500, 9 + 10 + 4, utf8);
        assert_eq!(narrow, ["admitted  █▄▁    100/s", "denied    ▁ ▁     50/s"]);
        let ascii = sparklines(&series, 100_500, 9 + 10 + 4, Glyphs::of_environment(|_| None));
        assert_eq!(ascii, ["admitted  @=.    100/s", "denied    . .     50/s"]);
        for columns in [0, 1, 20, 80, 300] {
            let wide = sparklines(&series, 100_500, columns, utf8);
            assert!(wide.iter().all(|line| line.chars().count() <= columns.clamp(20, 80)), "{wide:?}");
        }
        assert_eq!(sparklines(&json!(null), 0, 80, utf8)[1].trim_end(), format!("denied {:68}0/s", ""));
    }
}
