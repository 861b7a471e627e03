//! Text becomes rules: rules files, the shorthand `100/min per ip`, and foreign configuration.
//!
//! All results are a [`RuleSet`] of `tollgate-core`, or problems that name the place, the reason and the remedy. The
//! crate also writes rules back as text and JSON, by the same table of [`settings`] that reads them.

mod hint;
mod percent;
mod decimal;
mod schema;
pub mod yaml;
mod rule_name;
pub mod display;
mod request_values;
mod bound;
pub mod settings;
mod parts;
mod file;
mod rule_text;
mod exception_text;
mod shorthand;
pub mod import;

use tollgate_core::messages::rules::Published;
use tollgate_core::rules::problem::Problems;
use tollgate_core::rules::{Generation, Numbering, RuleSet};

pub use bound::bound;
pub use exception_text::{ExceptionTarget, ExceptionText};
pub use file::{
    OVERRIDES_LEN_MAX, Override, OverrideEffect, from_parts, from_yaml, json_schema, override_at, override_fault,
    overrides_text, read_overrides,
};
pub use hint::{cut, hint, nearest};
pub use parts::{NamedText, parts_text};
pub use percent::percent_text;
pub use rule_text::RuleText;
pub use shorthand::{ShorthandError, from_shorthand};
pub use yaml::FILE_LEN_MAX;

/// Parses published rules as this generation. A `version:` in the text applies to files only.
///
/// # Errors
/// As [`from_yaml`].
pub fn read_published(published: &Published, generation: Generation) -> Result<RuleSet, Problems> {
    let mut set = file::from_yaml_with(&published.name, &published.text, &published.overrides, generation)?;
    (set.generation, set.numbering) = (generation, Numbering::Publication);
    set.origin = format!("{}, published", published.name).into();
    Ok(set)
}
