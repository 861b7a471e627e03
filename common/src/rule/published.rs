//! Rules as they are published to a fleet: the text of a rules file, so that whoever reads it says itself what it means.

use super::{Generation, RuleSet};
use crate::problem::Problems;

/// Rules as they are published.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Published {
    /// The name of the file they were in.
    pub name: String,
    /// What it said.
    pub text: String,
}

impl Published {
    /// What they mean as this generation; a `version:` in the text is for files only.
    ///
    /// # Errors
    /// As [`RuleSet::from_yaml`].
    pub fn read(&self, generation: Generation) -> Result<RuleSet, Problems> {
        let set = RuleSet::from_yaml(&self.name, &self.text, generation)?;
        Ok(RuleSet { generation, origin: format!("{}, published", self.name).into(), ..set })
    }
}
