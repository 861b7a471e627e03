//! Texts of a batch in one piece of memory: a record has thousands of short ones.

use std::ops::Index;

/// List of texts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Texts {
    text: String,
    ends: Vec<u32>,
}

impl Texts {
    /// Creates an empty list with room for so many texts and so many bytes.
    #[must_use]
    pub fn with_capacity(texts: usize, bytes: usize) -> Self {
        Self { text: String::with_capacity(bytes), ends: Vec::with_capacity(texts) }
    }

    /// Adds a text.
    ///
    /// # Panics
    /// If all texts together were longer than 4 GB.
    pub fn push(&mut self, text: &str) {
        self.text.push_str(text);
        self.ends.push(u32::try_from(self.text.len()).expect("a batch is far shorter"));
    }

    /// Returns the number of texts.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Returns true if there is no text.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Returns the length of all texts, in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.text.len()
    }

    /// Returns the text at an index; none past the last.
    #[must_use]
    pub fn get(&self, index: u32) -> Option<&str> {
        let index = index as usize;
        (index < self.len()).then(|| &self[index])
    }

    /// Returns the texts in their order.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        (0..self.len()).map(|index| &self[index])
    }
}

impl Index<usize> for Texts {
    type Output = str;

    fn index(&self, index: usize) -> &str {
        let start = index.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.text[start as usize..self.ends[index] as usize]
    }
}

impl<T: AsRef<str>> FromIterator<T> for Texts {
    fn from_iter<I: IntoIterator<Item = T>>(texts: I) -> Self {
        let mut all = Self::default();
        texts.into_iter().for_each(|text| all.push(text.as_ref()));
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_read_as_they_were_added() {
        let texts: Texts = ["ip", "", "10.0.0.1", "ö"].into_iter().collect();
        assert_eq!(texts.iter().collect::<Vec<_>>(), ["ip", "", "10.0.0.1", "ö"]);
        assert_eq!((texts.len(), texts.bytes(), &texts[3], Texts::default().len()), (4, 12, "ö", 0));
    }
}
