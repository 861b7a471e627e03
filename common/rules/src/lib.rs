//! Text becomes rules: rules files, the shorthand `100/min per ip`, and foreign configuration.
//!
//! All results are a [`RuleSet`] of `tollgate-core`, or problems that name the place, the reason and the remedy. The
//! crate also writes rules back as text and JSON, by the same table of [`settings`] that reads them.

mod hint;
mod percent;
pub mod yaml;
pub mod display;
pub mod settings;
mod file;
mod shorthand;
pub mod import;

use tollgate_core::call::NAME_LEN_MAX;
use tollgate_core::messages::rules::Published;
use tollgate_core::rules::problem::Problems;
use tollgate_core::rules::{Generation, RuleSet};

pub use file::from_yaml;
pub use hint::{cut, hint, nearest};
pub use percent::percent_text;
pub use shorthand::{ShorthandError, from_shorthand};

/// Largest rules file, in bytes.
pub const FILE_LEN_MAX: usize = 4 << 20;

fn is_name_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || "-_.:/ ".contains(c)
}

/// Refuses a name that a rule must not have. `shown` is the name in the words of the file.
fn check_name(reader: &mut yaml::YamlReader<'_>, line: usize, name: &str, shown: &str) {
    if name.len() > NAME_LEN_MAX || !name.chars().all(is_name_char) {
        let text = format!("{shown}: write at most {NAME_LEN_MAX} letters, digits, spaces or any of - _ . : /");
        reader.refuse(line, text);
    }
}

/// Parses `1.67` as its digits, 167, and the number of decimals, 2.
fn parse_decimal(text: &str) -> Option<(u64, u32)> {
    let (whole, decimals) = text.split_once('.').unwrap_or((text, ""));
    let digits = format!("{whole}{decimals}");
    let plain = !whole.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    Some((digits.parse().ok().filter(|_| plain)?, u32::try_from(decimals.len()).ok()?))
}

/// Parses published rules as this generation. A `version:` in the text applies to files only.
///
/// # Errors
/// As [`from_yaml`].
pub fn read_published(published: &Published, generation: Generation) -> Result<RuleSet, Problems> {
    let mut set = from_yaml(&published.name, &published.text, generation)?;
    (set.generation, set.origin) = (generation, format!("{}, published", published.name).into());
    Ok(set)
}
