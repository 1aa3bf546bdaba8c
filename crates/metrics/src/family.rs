//! What is told: families of samples.

use serde::{Deserialize, Serialize};

use crate::HistogramSnapshot;

/// What a family's numbers mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Only grows; begins at zero when the process does.
    Counter,
    /// Goes up and down.
    Gauge,
    /// How often which size.
    Histogram,
}

/// What a family's numbers count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Unit {
    /// Just how many.
    None,
    /// Bytes.
    Bytes,
    /// Seconds. Counters and histograms of seconds hold nanoseconds, here and in JSON; they become seconds in the text form.
    Seconds,
}

/// Metrics of one name.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Family {
    /// Its whole name, such as `headrace_fuse_requests_total`.
    pub name: String,
    /// What it is, for a person: a sentence without its full stop.
    pub help: String,
    /// What the numbers mean.
    pub kind: Kind,
    /// What they count.
    pub unit: Unit,
    /// The numbers, by labels.
    pub samples: Vec<Sample>,
}

/// One number of a family.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// Label names and values; none if the family has one number only.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub labels: Vec<(String, String)>,
    /// The number.
    pub value: Value,
}

impl Sample {
    /// The value of a label.
    pub fn label(&self, name: &str) -> Option<&str> {
        self.labels.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// Whether it has all of `labels`, whatever else it has.
    pub fn has(&self, labels: &[(&str, &str)]) -> bool {
        labels.iter().all(|(name, value)| self.label(name) == Some(value))
    }
}

/// A sample's number.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Value {
    /// Of a [`Kind::Counter`].
    Counter(u64),
    /// Of a [`Kind::Gauge`]; always finite.
    Gauge(f64),
    /// Of a [`Kind::Histogram`].
    Histogram(HistogramSnapshot),
}

/// Where each layer puts its families when they are asked for.
#[derive(Debug, Default)]
pub struct Collection {
    families: Vec<Family>,
}

impl Collection {
    /// Nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// A family whose samples have labels. A family of a name that is there already is continued.
    pub fn family(&mut self, name: &str, help: &str, kind: Kind, unit: Unit) -> FamilyBuilder<'_> {
        let at = match self.families.iter().position(|family| family.name == name) {
            Some(at) => at,
            None => {
                let (name, help) = (name.to_owned(), help.to_owned());
                self.families.push(Family { name, help, kind, unit, samples: Vec::new() });
                self.families.len() - 1
            }
        };
        FamilyBuilder { family: self.families.get_mut(at) }
    }

    /// Counters by labels.
    pub fn counters(&mut self, name: &str, help: &str, unit: Unit) -> FamilyBuilder<'_> {
        self.family(name, help, Kind::Counter, unit)
    }

    /// Gauges by labels.
    pub fn gauges(&mut self, name: &str, help: &str, unit: Unit) -> FamilyBuilder<'_> {
        self.family(name, help, Kind::Gauge, unit)
    }

    /// Histograms of durations by labels.
    pub fn durations(&mut self, name: &str, help: &str) -> FamilyBuilder<'_> {
        self.family(name, help, Kind::Histogram, Unit::Seconds)
    }

    /// A counter without labels.
    pub fn counter(&mut self, name: &str, help: &str, unit: Unit, value: u64) {
        self.counters(name, help, unit).counter(&[], value);
    }

    /// A gauge without labels.
    pub fn gauge(&mut self, name: &str, help: &str, unit: Unit, value: f64) {
        self.gauges(name, help, unit).gauge(&[], value);
    }

    /// A histogram of durations without labels.
    pub fn duration(&mut self, name: &str, help: &str, value: HistogramSnapshot) {
        self.durations(name, help).histogram(&[], value);
    }

    /// All families, in the order they were added.
    pub fn finish(self) -> Vec<Family> {
        self.families
    }
}

/// Adds samples to one family of a [`Collection`].
#[derive(Debug)]
pub struct FamilyBuilder<'a> {
    family: Option<&'a mut Family>,
}

impl FamilyBuilder<'_> {
    /// Adds a counter.
    pub fn counter(&mut self, labels: &[(&str, &str)], value: u64) -> &mut Self {
        self.add(labels, Value::Counter(value))
    }

    /// Adds a gauge; what is not a number is told as zero.
    pub fn gauge(&mut self, labels: &[(&str, &str)], value: f64) -> &mut Self {
        self.add(labels, Value::Gauge(if value.is_finite() { value } else { 0.0 }))
    }

    /// Adds a histogram.
    pub fn histogram(&mut self, labels: &[(&str, &str)], value: HistogramSnapshot) -> &mut Self {
        self.add(labels, Value::Histogram(value))
    }

    fn add(&mut self, labels: &[(&str, &str)], value: Value) -> &mut Self {
        if let Some(family) = self.family.as_deref_mut() {
            let labels =
                labels.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
            family.samples.push(Sample { labels, value });
        }
        self
    }
}
