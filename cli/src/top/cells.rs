//! Values of the API as text: labels without control characters, numbers, ages, and cells of a fixed width.

use console::{Alignment, measure_text_width, pad_str, truncate_str};
use serde_json::Value;
use tollgate::Quota;

/// Blocks of a sparkline from low to high.
const BLOCKS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
const ASCII_BLOCKS: [char; 8] = ['.', ':', '-', '=', '+', '*', '#', '@'];

/// Characters that the terminal shows.
#[derive(Clone, Copy, Debug)]
pub(super) struct Glyphs {
    is_utf8: bool,
}

impl Glyphs {
    /// Returns the glyphs of the locale: the first variable that is set decides, as in `setlocale(3)`.
    pub(super) fn of_environment(variable: impl Fn(&str) -> Option<String>) -> Self {
        let set = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().filter_map(variable).find(|value| !value.is_empty());
        let encoding = set.unwrap_or_default().to_ascii_lowercase();
        Self { is_utf8: encoding.contains("utf-8") || encoding.contains("utf8") }
    }

    pub(super) fn blocks(self) -> [char; 8] {
        if self.is_utf8 { BLOCKS } else { ASCII_BLOCKS }
    }

    pub(super) fn ellipsis(self) -> &'static str {
        if self.is_utf8 { "…" } else { "~" }
    }

    /// Returns a text whose characters move no cursor and hide no other ones: those that could are escaped.
    pub(super) fn text(self, text: &str) -> String {
        let mut shown = String::with_capacity(text.len());
        for c in text.chars() {
            match c {
                '\\' | '"' | '\'' => shown.push(c),
                '…' => shown.push_str(self.ellipsis()),
                _ if self.is_utf8 => shown.extend(c.escape_debug()),
                _ => shown.extend(c.escape_default()),
            }
        }
        shown
    }

    /// Returns a text of JSON; a dash if the value is none.
    pub(super) fn label(self, value: &Value) -> String {
        value.as_str().map_or_else(|| "-".to_owned(), |text| self.text(text))
    }

    /// Pads or cuts a text to a width.
    pub(super) fn cell(self, text: &str, width: usize, alignment: Alignment) -> String {
        // A wide character that is cut may leave a column free.
        pad_str(&truncate_str(text, width, self.ellipsis()), width, alignment, None).into_owned()
    }

    /// Cuts a text to a width.
    pub(super) fn cut(self, text: &str, width: usize) -> String {
        let ellipsis = if width == 0 { "" } else { self.ellipsis() };
        truncate_str(text, width, ellipsis).trim_end().to_owned()
    }
}

/// Returns the number of columns of a text.
pub(super) fn width(text: &str) -> usize {
    measure_text_width(text)
}

/// Returns the elements of an array; none if the value is something else.
pub(super) fn elements(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// Formats a number in at most six characters.
pub(super) fn compact(number: u64) -> String {
    let (mut shown, mut prefix) = (number, "");
    for next in ["k", "M", "G", "T", "P"] {
        if shown < 100_000 {
            break;
        }
        (shown, prefix) = (shown / 1_000, next);
    }
    format!("{shown}{prefix}")
}

/// Formats a number of JSON; a dash if the value is none.
pub(super) fn number(value: &Value) -> String {
    value.as_u64().map_or_else(|| "-".to_owned(), compact)
}

/// Formats calls per second.
pub(super) fn rate(value: &Value) -> String {
    let rate = value.as_f64().unwrap_or_default();
    if rate > 0.0 && rate < 100.0 { format!("{rate:.1}") } else { format!("{rate:.0}") }
}

/// Formats a quota and its window, such as `100/min`.
pub(super) fn quota(units: &Value, window_ms: &Value) -> String {
    let quota = units.as_u64().zip(window_ms.as_u64()).and_then(|(units, ms)| Quota::new(units, ms).ok());
    quota.map_or_else(|| "-".to_owned(), |quota| quota.to_string())
}

/// Formats the time between two instants in ms; a dash if one is none.
pub(super) fn age(at_ms: &Value, now_ms: &Value) -> String {
    let ages = now_ms.as_u64().zip(at_ms.as_u64()).map(|(now, at)| now.saturating_sub(at) / 1_000);
    ages.map_or_else(|| "-".to_owned(), seconds)
}

/// Formats a number of seconds.
pub(super) fn seconds(seconds: u64) -> String {
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7_200 => format!("{} min", seconds / 60),
        7_200..172_800 => format!("{} h", seconds / 3_600),
        _ => format!("{} d", seconds / 86_400),
    }
}

/// Formats the time of the day in UTC.
pub(super) fn time_of_day(ms: u64) -> String {
    let second = ms / 1_000 % 86_400;
    format!("{:02}:{:02}:{:02} UTC", second / 3_600, second / 60 % 60, second % 60)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const UTF8: Glyphs = Glyphs { is_utf8: true };
    const ASCII: Glyphs = Glyphs { is_utf8: false };

    #[test]
    fn characters_that_move_the_cursor_or_hide_others_are_escaped() {
        for (text, utf8, ascii) in [
            ("api_key=k9", "api_key=k9", "api_key=k9"),
            ("a\x1b[2Jb", "a\\u{1b}[2Jb", "a\\u{1b}[2Jb"),
            ("a\r\n\tb\x07\u{9b}", "a\\r\\n\\tb\\u{7}\\u{9b}", "a\\r\\n\\tb\\u{7}\\u{9b}"),
            ("\u{202e}abc\u{200b}", "\\u{202e}abc\\u{200b}", "\\u{202e}abc\\u{200b}"),
            ("é\"'\\東", "é\"'\\東", "\\u{e9}\"'\\\\u{6771}"),
            ("sk_l…12", "sk_l…12", "sk_l~12"),
        ] {
            assert_eq!((&*UTF8.text(text), &*ASCII.text(text)), (utf8, ascii));
        }
    }

    #[test]
    fn the_first_variable_of_the_locale_decides() {
        for (variables, is_utf8) in [
            (&[][..], false),
            (&[("LANG", "en_US.UTF-8")], true),
            (&[("LANG", "C.utf8")], true),
            (&[("LANG", "en_US.UTF-8"), ("LC_ALL", "C")], false),
            (&[("LANG", "C"), ("LC_ALL", ""), ("LC_CTYPE", "de_DE.UTF-8")], true),
        ] {
            let variable =
                |name: &str| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned());
            assert_eq!(Glyphs::of_environment(variable).is_utf8, is_utf8, "{variables:?}");
        }
    }

    #[test]
    fn cells_have_the_width_that_the_terminal_shows() {
        for (text, left, right) in [
            ("abc", "abc   ", "   abc"),
            ("abcdefgh", "abcde…", "abcde…"),
            ("東京都区", "東京… ", " 東京…"),
            ("", "      ", "      "),
        ] {
            assert_eq!(UTF8.cell(text, 6, Alignment::Left), left);
            assert_eq!(UTF8.cell(text, 6, Alignment::Right), right);
        }
    }

    #[test]
    fn numbers_and_times_are_short() {
        for (value, expected) in [(99_999, "99999"), (100_000, "100k"), (12_345_678, "12345k"), (u64::MAX, "18446P")] {
            assert_eq!(compact(value), expected);
        }
        for (value, expected) in [(0.0, "0"), (0.06, "0.1"), (48.54, "48.5"), (5012.3, "5012")] {
            assert_eq!(rate(&json!(value)), expected);
        }
        for (value, expected) in [(119, "119 s"), (120, "2 min"), (7_300, "2 h"), (200_000, "2 d")] {
            assert_eq!(seconds(value), expected);
        }
        assert_eq!(quota(&json!(100), &json!(60_000)), "100/min");
        assert_eq!(
            (quota(&json!(null), &json!(60_000)), age(&json!(null), &json!(5))),
            ("-".to_owned(), "-".to_owned())
        );
        assert_eq!(time_of_day(1_795_801_067_209), "17:37:47 UTC");
    }
}
