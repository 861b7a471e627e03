//! Families of metrics, read from the OpenMetrics text that this process writes.
//!
//! The text is the one form that all parts of a process have in common. Lines that no part writes, such as exemplars, are passed over.

/// Family of metrics.
#[derive(Debug, Default, PartialEq)]
pub(super) struct MetricFamily {
    pub(super) name: String,
    pub(super) help: String,
    pub(super) unit: String,
    pub(super) kind: String,
    pub(super) samples: Vec<MetricSample>,
}

/// Value of one series.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct MetricSample {
    /// Name of the family, and the suffix of the sample.
    pub(super) name: String,
    pub(super) labels: Vec<(String, String)>,
    /// Value as it is written.
    pub(super) value: String,
}

/// Reads OpenMetrics text, in which the samples of a family follow its metadata.
pub(super) fn families(text: &str) -> Vec<MetricFamily> {
    let mut families: Vec<MetricFamily> = Vec::new();
    for line in text.lines() {
        if let Some(metadata) = line.strip_prefix("# ") {
            let mut words = metadata.splitn(3, ' ');
            let (Some(keyword), Some(name)) = (words.next(), words.next()) else { continue };
            let value = words.next().unwrap_or_default().to_owned();
            if families.last().is_none_or(|family| family.name != name) {
                families.push(MetricFamily { name: name.to_owned(), ..MetricFamily::default() });
            }
            let family = families.last_mut().expect("it was just added");
            match keyword {
                "HELP" => family.help = value,
                "TYPE" => family.kind = value,
                "UNIT" => family.unit = value,
                _ => {}
            }
        } else if let (Some(family), Some(sample)) = (families.last_mut(), sample(line)) {
            family.samples.push(sample);
        }
    }
    families
}

fn sample(line: &str) -> Option<MetricSample> {
    let (series, value) = line.rsplit_once(' ')?;
    let (name, labels) = match series.split_once('{') {
        Some((name, labels)) => (name, labels_of(labels)?),
        None => (series, Vec::new()),
    };
    Some(MetricSample { name: name.to_owned(), labels, value: value.to_owned() })
}

/// Reads `name="value",...}`. In a value, a backslash stands before itself, a quote, and the `n` of a line feed.
fn labels_of(text: &str) -> Option<Vec<(String, String)>> {
    let (mut labels, mut rest) = (Vec::new(), text);
    while rest != "}" {
        let (name, quoted) = rest.split_once("=\"")?;
        let (mut value, mut chars) = (String::new(), quoted.chars());
        loop {
            match chars.next()? {
                '"' => break,
                '\\' => match chars.next()? {
                    'n' => value.push('\n'),
                    escaped => value.push(escaped),
                },
                plain => value.push(plain),
            }
        }
        labels.push((name.to_owned(), value));
        rest = chars.as_str().strip_prefix(',').unwrap_or(chars.as_str());
    }
    Some(labels)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_and_their_samples_are_read() {
        let text = "# HELP cpu_seconds Time of \\n the CPU.\n# TYPE cpu_seconds counter\n# UNIT cpu_seconds seconds\n\
                    cpu_seconds_total 1.5\n# HELP calls Calls.\n# TYPE calls counter\ncalls_total{rule=\"a\",by=\"\"} 7\n\
                    calls_total{rule=\"b\"} 8\n# TYPE bare gauge\n# EOF\n";
        let read = families(text);
        let head = |family: &MetricFamily| {
            [&family.name, &family.kind, &family.unit, &family.help].map(Clone::clone).join("|")
        };
        let heads: Vec<_> = read.iter().map(head).collect();
        assert_eq!(
            heads,
            ["cpu_seconds|counter|seconds|Time of \\n the CPU.", "calls|counter||Calls.", "bare|gauge||"]
        );
        let of_calls: Vec<_> = read[1].samples.iter().map(|sample| (&*sample.name, &*sample.value)).collect();
        assert_eq!(of_calls, [("calls_total", "7"), ("calls_total", "8")]);
        assert_eq!(read[1].samples[0].labels, [("rule".into(), "a".into()), ("by".into(), String::new())]);
        assert_eq!(read[0].samples.len() + read[2].samples.len(), 1);
    }

    #[test]
    fn a_value_of_a_label_may_hold_any_character() {
        for (line, value) in [
            (r#"x{a="plain"} 1"#, Some("plain")),
            (r#"x{a="b}, c=\"d\" {"} 1"#, Some("b}, c=\"d\" {")),
            (r#"x{a="\\n\n\\"} 1"#, Some("\\n\n\\")),
            (r#"x{a="open} 1"#, None),
            (r"x{a} 1", None),
        ] {
            let read = sample(line).map(|sample| sample.labels[0].1.clone());
            assert_eq!(read.as_deref(), value, "{line}");
        }
        assert_eq!(sample("x 1").map(|sample| (sample.name, sample.labels)), Some(("x".to_owned(), Vec::new())));
    }
}
