//! Reads metrics as Prometheus does, and says what is wrong with them.

use std::collections::{BTreeMap, BTreeSet};

/// A scrape.
#[derive(Debug, Default)]
pub struct Exposition {
    /// Type by family.
    types: BTreeMap<String, String>,
    helps: BTreeMap<String, String>,
    /// Value by name and labels.
    samples: BTreeMap<(String, Labels), f64>,
    mistakes: Vec<String>,
}

pub type Labels = BTreeMap<String, String>;

impl Exposition {
    /// Reads the text form; what cannot be read is a mistake.
    pub fn parse(text: &str) -> Exposition {
        let mut found = Exposition::default();
        if !text.ends_with('\n') {
            found.mistakes.push("the last line has no end".into());
        }
        for line in text.lines() {
            found.line(line);
        }
        found
    }

    fn line(&mut self, line: &str) {
        let mut words = line.splitn(4, ' ');
        match (words.next(), words.next(), words.next(), words.next()) {
            (Some("#"), Some("TYPE"), Some(name), Some(kind)) => self.declare(line, name, kind),
            (Some("#"), Some("HELP"), Some(name), Some(help)) => {
                if self.helps.insert(name.to_owned(), help.to_owned()).is_some() {
                    self.mistakes.push(format!("{name} has two helps"));
                }
            }
            (Some("#"), Some("UNIT" | "EOF"), ..) => {}
            _ => match sample(line) {
                Some((name, labels, value)) => {
                    if self.samples.insert((name, labels), value).is_some() {
                        self.mistakes.push(format!("{line}: the second of its name and labels"));
                    }
                }
                None => self.mistakes.push(format!("{line}: cannot be read")),
            },
        }
    }

    fn declare(&mut self, line: &str, name: &str, kind: &str) {
        if self.samples.keys().any(|(sample, _)| sample == name) {
            self.mistakes.push(format!("{line}: after its samples"));
        }
        if self.types.insert(name.to_owned(), kind.to_owned()).is_some() {
            self.mistakes.push(format!("{name} has two types"));
        }
    }

    /// The sum of all samples of this name that have these labels.
    pub fn sum(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        let has =
            |found: &Labels| labels.iter().all(|(key, value)| found.get(*key).is_some_and(|v| v == value));
        self.samples.iter().filter(|((n, found), _)| n == name && has(found)).map(|(_, value)| value).sum()
    }

    /// The names of all families.
    pub fn families(&self) -> impl Iterator<Item = &str> {
        self.types.keys().map(String::as_str)
    }

    /// Whether there is any sample of this name.
    pub fn has(&self, name: &str) -> bool {
        self.samples.keys().any(|(found, _)| found == name)
    }

    /// What Prometheus' own checker would object to, and what would make graphs of these numbers wrong.
    pub fn mistakes(&self) -> Vec<String> {
        let mut all = self.mistakes.clone();
        for (name, kind) in &self.types {
            let mut wrong = |why: &str| all.push(format!("{name}: {why}"));
            if !is_name(name) || name.to_lowercase() != *name {
                wrong("no name in lower case of letters, digits and _");
            }
            if !(name.starts_with("headrace_") || name.starts_with("process_")) {
                wrong("without the name of the program before it");
            }
            if self.helps.get(name).is_none_or(|help| help.len() <= 3) {
                wrong("without help");
            }
            if (kind == "counter") != name.ends_with("_total") {
                wrong("counters, and they alone, end with _total");
            }
            let words: BTreeSet<&str> = name.split('_').collect();
            for unit in
                ["ms", "milliseconds", "us", "micros", "nanoseconds", "minutes", "kb", "kib", "mb", "percent"]
            {
                if words.contains(unit) {
                    wrong("not in a base unit: seconds, bytes, or a ratio");
                }
            }
            for kind in ["counter", "gauge", "histogram", "summary", "count", "sum", "bucket"] {
                if words.contains(kind) {
                    wrong("names its type");
                }
            }
            if kind == "histogram" && !(name.ends_with("_seconds") || name.ends_with("_bytes")) {
                wrong("a histogram without a unit");
            }
        }
        for ((name, labels), value) in &self.samples {
            let family = self.family(name);
            let kind = self.types.get(family).map(String::as_str);
            if kind.is_none() {
                all.push(format!("{name}: without a type"));
            }
            if labels.keys().any(|label| !is_name(label) || (label == "le" && kind != Some("histogram"))) {
                all.push(format!("{name}: a label that cannot be: {labels:?}"));
            }
            if !value.is_finite() || (kind != Some("gauge") && *value < 0.0) {
                all.push(format!("{name}{labels:?} is {value}"));
            }
        }
        all.extend(
            self.types.iter().filter(|(_, kind)| *kind == "histogram").flat_map(|(n, _)| self.histogram(n)),
        );
        all
    }

    fn family<'a>(&self, sample: &'a str) -> &'a str {
        ["_bucket", "_sum", "_count"]
            .into_iter()
            .filter_map(|suffix| sample.strip_suffix(suffix))
            .find(|family| self.types.get(*family).is_some_and(|kind| kind == "histogram"))
            .unwrap_or(sample)
    }

    /// Buckets must grow up to the count.
    fn histogram(&self, family: &str) -> Vec<String> {
        let mut mistakes = Vec::new();
        let mut buckets: BTreeMap<Labels, Vec<(f64, f64)>> = BTreeMap::new();
        for ((_, labels), value) in
            self.samples.iter().filter(|((name, _), _)| *name == format!("{family}_bucket"))
        {
            let mut labels = labels.clone();
            let bound = match labels.remove("le").as_deref() {
                Some("+Inf") => f64::INFINITY,
                Some(bound) => bound.parse().unwrap_or(f64::NAN),
                None => f64::NAN,
            };
            buckets.entry(labels).or_default().push((bound, *value));
        }
        for (labels, mut buckets) in buckets {
            buckets.sort_by(|a, b| a.0.total_cmp(&b.0));
            if buckets.windows(2).any(|pair| pair[0].1 > pair[1].1) {
                mistakes.push(format!("{family}{labels:?}: a bucket has less than the one before"));
            }
            let count = self.samples.get(&(format!("{family}_count"), labels.clone()));
            if buckets.last().is_none_or(|last| last.0 != f64::INFINITY || Some(&last.1) != count) {
                mistakes.push(format!("{family}{labels:?}: the last bucket is not all"));
            }
            if !self.samples.contains_key(&(format!("{family}_sum"), labels.clone())) {
                mistakes.push(format!("{family}{labels:?}: without a sum"));
            }
        }
        mistakes
    }
}

fn is_name(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

fn sample(line: &str) -> Option<(String, Labels, f64)> {
    let (name, value) = line.rsplit_once(' ')?;
    let value = value.parse().ok()?;
    let Some((name, labels)) = name.split_once('{') else {
        return is_name(name).then(|| (name.to_owned(), Labels::new(), value));
    };
    let mut rest = labels.strip_suffix('}')?;
    let mut found = Labels::new();
    while !rest.is_empty() {
        let (key, after) = rest.split_once("=\"")?;
        let mut value = String::new();
        let mut characters = after.char_indices();
        let end = loop {
            match characters.next()? {
                (at, '"') => break at,
                (_, '\\') => match characters.next()?.1 {
                    'n' => value.push('\n'),
                    other => value.push(other),
                },
                (_, other) => value.push(other),
            }
        };
        found.insert(key.to_owned(), value);
        rest = after.get(end + 1..)?;
        rest = rest.strip_prefix(',').unwrap_or(rest);
    }
    is_name(name).then(|| (name.to_owned(), found, value))
}

#[test]
fn mistakes_are_found() {
    let sound = "# HELP headrace_x_seconds Some help\n# TYPE headrace_x_seconds histogram\n\
                 headrace_x_seconds_bucket{le=\"1.0\"} 2\nheadrace_x_seconds_bucket{le=\"+Inf\"} 3\n\
                 headrace_x_seconds_sum 4.5\nheadrace_x_seconds_count 3\n";
    assert_eq!(Exposition::parse(sound).mistakes(), Vec::<String>::new());
    for (from, to) in [
        ("# HELP headrace_x_seconds Some help\n", ""),
        ("headrace_x_seconds_sum 4.5\n", ""),
        ("le=\"1.0\"} 2", "le=\"1.0\"} 5"),
        ("_count 3", "_count 4"),
        ("_sum 4.5", "_sum NaN"),
        ("histogram", "counter"),
        ("headrace_x_seconds", "headrace_x_ms"),
        ("headrace_x_seconds", "headrace_X_seconds"),
        ("headrace_x_seconds", "other_x_seconds"),
        ("headrace_x_seconds_sum 4.5\n", "headrace_x_seconds_sum 4.5\nheadrace_x_seconds_sum 4.5\n"),
        ("headrace_x_seconds_sum 4.5\n", "headrace_x_seconds_sum 4.5\nheadrace_y 1\n"),
        ("headrace_x_seconds_sum 4.5\n", "headrace_x_seconds_sum\n"),
    ] {
        let broken = sound.replace(from, to);
        assert_ne!(Exposition::parse(&broken).mistakes(), Vec::<String>::new(), "{broken}");
    }
}
