//! Numbers of units and their text form: `100`, `10k`, `10MB`, `5 tokens`.

/// Names of units, each with its multiple of the base unit. The first name of a multiple is the one that is shown.
const SCALES: [(&[&str], Unit, u64); 14] = [
    (&["", "call", "calls", "request", "requests"], Unit::Calls, 1),
    (&["k"], Unit::Calls, 1_000),
    (&["M"], Unit::Calls, 1_000_000),
    (&["G"], Unit::Calls, 1_000_000_000),
    (&["tokens", "token"], Unit::Tokens, 1),
    (&["B", "bytes"], Unit::Bytes, 1),
    (&["kB", "KB"], Unit::Bytes, 1_000),
    (&["KiB"], Unit::Bytes, 1 << 10),
    (&["MB"], Unit::Bytes, 1_000_000),
    (&["MiB"], Unit::Bytes, 1 << 20),
    (&["GB"], Unit::Bytes, 1_000_000_000),
    (&["GiB"], Unit::Bytes, 1 << 30),
    (&["TB"], Unit::Bytes, 1_000_000_000_000),
    (&["TiB"], Unit::Bytes, 1 << 40),
];

/// Unit of a quota. It is for display only: the cost of a call is in the unit of the rules that apply.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Unit {
    /// Calls, or the cost of a call.
    #[default]
    Calls,
    /// Bytes.
    Bytes,
    /// Tokens of a language model.
    Tokens,
}

/// Reason why a text is not a number of units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnitsError {
    /// The text does not begin with a number, or the number is too large.
    Form,
    /// The unit after the number is unknown.
    Unit,
}

/// Reads `100`, `1,000`, `10k`, `10MB`, `5 tokens`.
///
/// # Errors
/// When the text has no number, or an unknown unit.
pub fn parse_units(text: &str) -> Result<(u64, Unit), UnitsError> {
    let text = without_groups(text.trim()).replace('_', "");
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (count, name) = text.split_at(digits);
    let count: u64 = count.parse().map_err(|_| UnitsError::Form)?;
    let name = name.trim();
    let find = |wanted: &str| SCALES.into_iter().find(|(names, ..)| names.contains(&wanted));
    // `10k tokens`: thousands of something that is not bytes.
    let scaled = || {
        let (factor, of) = name.split_once(' ')?;
        let (_, _, factor) = find(factor).filter(|(_, unit, scale)| *unit == Unit::Calls && *scale > 1)?;
        let (names, unit, one) = find(of.trim()).filter(|(_, unit, one)| *unit != Unit::Bytes && *one == 1)?;
        Some((names, unit, factor * one))
    };
    let (_, unit, scale) = find(name).or_else(scaled).ok_or(UnitsError::Unit)?;
    Ok((count.checked_mul(scale).ok_or(UnitsError::Form)?, unit))
}

/// Returns the text without the commas that group its digits by three.
fn without_groups(text: &str) -> String {
    let digits = text.bytes().take_while(|byte| byte.is_ascii_digit() || *byte == b',').count();
    let (number, rest) = text.split_at(digits);
    let mut groups = number.split(',');
    let is_first = groups.next().is_some_and(|first| (1..=3).contains(&first.len()));
    let is_grouped = number.contains(',') && is_first && groups.all(|group| group.len() == 3);
    if is_grouped { number.replace(',', "") + rest } else { text.to_owned() }
}

/// Writes a number of units: `50MB`, `100`, `10000 tokens`.
#[must_use]
pub fn show_units(units: u64, unit: Unit) -> String {
    match unit {
        Unit::Calls => units.to_string(),
        Unit::Tokens => format!("{units} tokens"),
        Unit::Bytes => {
            let whole = |of: Unit, scale: u64| of == Unit::Bytes && units.is_multiple_of(scale);
            let largest = SCALES.into_iter().rfind(|(_, of, scale)| whole(*of, *scale));
            let (names, _, scale) = largest.unwrap_or(SCALES[0]);
            format!("{}{}", units / scale, names[0])
        }
    }
}
