//! Where a value lies on an axis, and which values are written beside it.

/// How values lie on an axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scale {
    /// Equal steps are equally long.
    Linear,
    /// Doublings are equally long. Values are above 0.
    Doublings,
}

/// An axis.
#[derive(Debug, Clone, PartialEq)]
pub struct Axis {
    /// What it is, and its unit.
    pub label: String,
    /// How values lie on it.
    pub scale: Scale,
    /// The values that are written beside it; if there are none, round ones.
    pub ticks: Vec<f64>,
}

impl Axis {
    /// In equal steps, with round values beside it.
    pub fn linear(label: impl Into<String>) -> Axis {
        Axis { label: label.into(), scale: Scale::Linear, ticks: Vec::new() }
    }

    /// In doublings, with these values beside it.
    pub fn doublings(label: impl Into<String>, ticks: impl IntoIterator<Item = f64>) -> Axis {
        Axis { label: label.into(), scale: Scale::Doublings, ticks: ticks.into_iter().collect() }
    }
}

/// An axis with its bounds.
#[derive(Debug, Clone)]
pub(super) struct Placed {
    scale: Scale,
    from: f64,
    to: f64,
    /// Values to write and where they are, as shares of the axis.
    pub ticks: Vec<(f64, String)>,
}

impl Placed {
    /// `axis` from one value to another; about so many round values beside it if it names none.
    pub fn new(axis: &Axis, from: f64, to: f64, about: usize) -> Placed {
        let mut placed = Placed { scale: axis.scale, from, to, ticks: Vec::new() };
        let values = if axis.ticks.is_empty() { round_values(from, to, about) } else { axis.ticks.clone() };
        let inside = |at: &f64| (-1e-9..=1.0 + 1e-9).contains(at);
        placed.ticks = values
            .into_iter()
            .map(|value| (placed.at(value), number(value)))
            .filter(|(at, _)| inside(at))
            .collect();
        placed
    }

    /// From 0 to a round value that is at least `most`.
    pub fn from_zero(axis: &Axis, most: f64, about: usize) -> Placed {
        let step = round_step(most, about);
        Placed::new(axis, 0.0, (most / step).ceil().max(1.0) * step, about)
    }

    /// Where a value is, as a share of the axis: outside of 0 to 1 if it is beyond its bounds.
    pub fn at(&self, value: f64) -> f64 {
        let of = |value: f64| match self.scale {
            Scale::Linear => value,
            Scale::Doublings => value.max(f64::MIN_POSITIVE).log2(),
        };
        let length = of(self.to) - of(self.from);
        if length > 0.0 { (of(value) - of(self.from)) / length } else { 0.5 }
    }
}

/// 1, 2 or 5 times a power of ten: about so many of them make up `length`.
fn round_step(length: f64, about: usize) -> f64 {
    let rough = (length / about.max(1) as f64).max(f64::MIN_POSITIVE);
    let power = 10f64.powf(rough.log10().floor());
    let times = [1.0, 2.0, 5.0].into_iter().find(|times| times * power >= rough * 0.999).unwrap_or(10.0);
    times * power
}

fn round_values(from: f64, to: f64, about: usize) -> Vec<f64> {
    let step = round_step(to - from, about);
    let first = (from / step).ceil();
    let count = ((to / step + 1e-9).floor() - first).clamp(0.0, 1000.0) as usize;
    (0..=count).map(|index| (first + index as f64) * step).collect()
}

/// As short as it can be told from its neighbours.
fn number(value: f64) -> String {
    let digits = if value.abs() >= 10.0 || value.fract().abs() < 1e-9 { 0 } else { 2 };
    let text = format!("{value:.digits$}");
    if digits == 0 { text } else { text.trim_end_matches('0').trim_end_matches('.').to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn doublings_are_equally_long() {
        let axis = Placed::new(&Axis::doublings("rpcs", [1.0, 16.0, 256.0, 512.0]), 1.0, 256.0, 5);
        assert!((axis.at(16.0) - 0.5).abs() < 1e-9);
        let labels: Vec<_> = axis.ticks.iter().map(|(_, label)| label.as_str()).collect();
        assert_eq!(labels, ["1", "16", "256"], "what lies outside is not written");
    }

    proptest! {
        /// The greatest value is on the axis and not far from its end, and the values beside it are few, rising and inside.
        #[test]
        fn round_values_span_what_is_drawn(most in 1e-3f64..1e12) {
            let axis = Placed::from_zero(&Axis::linear("y"), most, 5);
            let at = axis.at(most);
            prop_assert!((0.49..=1.0 + 1e-9).contains(&at), "{at}");
            prop_assert!((2..=12).contains(&axis.ticks.len()), "{:?}", axis.ticks);
            prop_assert!(axis.ticks.windows(2).all(|two| two[0].0 < two[1].0));
            prop_assert!(axis.ticks.iter().all(|(at, _)| (-1e-9..=1.0 + 1e-9).contains(at)));
        }
    }
}
