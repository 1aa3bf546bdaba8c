//! A chart in characters: lines in Braille dots, two by four to a character; series are told apart by the marks on them.

use super::axis::Placed;
use super::{Chart, Kind, Line};
use std::fmt::Write as _;

/// Characters beside the y axis, the axis itself included.
const GUTTER: usize = 9;
/// Characters of the drawing: all of it fits a terminal of 80.
const WIDTH: usize = 68;
const HEIGHT: usize = 14;
/// Where a line has more points than this, it is marked now and then.
const FEW: usize = 24;
/// How often that is, in characters.
const MARK_EVERY: usize = 12;

/// Of each series, in its order.
const MARKS: [char; 8] = ['o', 'x', '+', '*', '#', '@', '%', '='];

fn mark(index: usize) -> char {
    MARKS[index % MARKS.len()]
}

/// Draws it, with its title, axes and legend: at most 80 characters wide unless a title is.
pub fn draw(chart: &Chart) -> String {
    let (from, to) = chart.x_bounds();
    let x = Placed::new(&chart.x, from, to, 8);
    let y = Placed::from_zero(&chart.y, chart.y_most(), 5);
    let mut canvas = Canvas::new();
    for change in &chart.changes {
        canvas.change(x.at(*change));
    }
    for line in &chart.lines {
        canvas.line(line, &x, &y);
    }
    let count = chart.lines.len();
    for (index, line) in chart.lines.iter().enumerate() {
        canvas.marks(line, &x, &y, index, count);
    }
    let mut out = String::new();
    let _ = writeln!(out, "{}", chart.title);
    let _ = writeln!(out, "{:>1$}", chart.y.label, GUTTER.max(chart.y.label.chars().count()));
    for (row, text) in canvas.rows().enumerate() {
        let here = |at: f64| row_of(at) == row;
        let tick = y.ticks.iter().find(|(at, _)| here(*at));
        let (label, axis) = tick.map_or(("", '│'), |(_, label)| (label, '┤'));
        let _ = writeln!(out, "{label:>0$}{axis}{1}", GUTTER - 1, text.trim_end());
    }
    let _ = writeln!(out, "{:>1$}└{2}", "", GUTTER - 1, "─".repeat(WIDTH));
    let _ = writeln!(out, "{}", below(&x));
    let _ = writeln!(out, "{:>1$}", chart.x.label, GUTTER + WIDTH);
    let legend = chart.lines.iter().enumerate().map(|(index, line)| {
        let drawn = match line.kind {
            Kind::Points => format!("⠤{}⠤", mark(index)),
            Kind::Reference => format!("⠄{}⠄", mark(index)),
        };
        format!("{drawn} {}", line.name)
    });
    let _ = writeln!(out, "{:>1$}{2}", "", GUTTER, legend.collect::<Vec<_>>().join("   "));
    out
}

/// The line of labels below the x axis. What would touch its neighbour is left out.
fn below(x: &Placed) -> String {
    let mut line = vec![' '; GUTTER + WIDTH + 3];
    let mut free = 0;
    for (at, label) in &x.ticks {
        let length = label.chars().count();
        let start = (GUTTER + column_of(*at)).saturating_sub(length / 2);
        if start < free || start + length > line.len() {
            continue;
        }
        for (place, one) in line.iter_mut().skip(start).zip(label.chars()) {
            *place = one;
        }
        free = start + length + 1;
    }
    line.into_iter().collect::<String>().trim_end().to_owned()
}

/// The dot of a place on an axis with so many, as a share of the axis.
fn dot(at: f64, dots: usize) -> usize {
    // Casts of what is out of bounds saturate.
    ((at * (dots - 1) as f64).round() as usize).min(dots - 1)
}

fn column_of(at: f64) -> usize {
    dot(at, 2 * WIDTH) / 2
}

fn row_of(at: f64) -> usize {
    HEIGHT - 1 - dot(at, 4 * HEIGHT) / 4
}

struct Canvas {
    /// Of each character, row by row, the dots that are set, as Unicode numbers them from U+2800.
    dots: Vec<u8>,
    /// What is there instead of dots.
    marks: Vec<Option<char>>,
    /// Columns where something changes.
    changes: Vec<bool>,
}

impl Canvas {
    fn new() -> Canvas {
        let cells = WIDTH * HEIGHT;
        Canvas { dots: vec![0; cells], marks: vec![None; cells], changes: vec![false; WIDTH] }
    }

    fn change(&mut self, at: f64) {
        if (0.0..=1.0).contains(&at)
            && let Some(column) = self.changes.get_mut(column_of(at))
        {
            *column = true;
        }
    }

    /// Sets one of `2 * WIDTH` by `4 * HEIGHT` dots, counted from the left and from the bottom.
    fn set(&mut self, x: usize, y: usize) {
        const BITS: [[u8; 4]; 2] = [[0x40, 0x04, 0x02, 0x01], [0x80, 0x20, 0x10, 0x08]];
        let (row, bit) = (HEIGHT - 1 - (y / 4).min(HEIGHT - 1), BITS[x % 2][y % 4]);
        if let Some(dots) = self.dots.get_mut(row * WIDTH + x / 2) {
            *dots |= bit;
        }
    }

    fn line(&mut self, line: &Line, x: &Placed, y: &Placed) {
        let place = |&(a, b): &(f64, f64)| {
            let there = a.is_finite() && b.is_finite();
            there.then(|| (dot(x.at(a), 2 * WIDTH), dot(y.at(b), 4 * HEIGHT)))
        };
        let places: Vec<Option<(usize, usize)>> = line.points.iter().map(place).collect();
        for two in places.windows(2) {
            if let [Some(from), Some(to)] = two {
                self.segment(*from, *to, line.kind);
            }
        }
        for place in places.into_iter().flatten() {
            self.dashed(place.0, place.1, line.kind);
        }
    }

    /// From one dot to another, without gaps.
    fn segment(&mut self, from: (usize, usize), to: (usize, usize), kind: Kind) {
        let steps = from.0.abs_diff(to.0).max(from.1.abs_diff(to.1)).max(1);
        let between = |a: usize, b: usize, step: usize| {
            (a as f64 + (b as f64 - a as f64) * step as f64 / steps as f64).round() as usize
        };
        for step in 0..=steps {
            self.dashed(between(from.0, to.0, step), between(from.1, to.1, step), kind);
        }
    }

    fn dashed(&mut self, x: usize, y: usize, kind: Kind) {
        if kind == Kind::Points || x.is_multiple_of(4) {
            self.set(x, y);
        }
    }

    fn marks(&mut self, line: &Line, x: &Placed, y: &Placed, index: usize, count: usize) {
        let there = |(a, b): &(f64, f64)| a.is_finite() && b.is_finite();
        let place = |(a, b): (f64, f64)| (column_of(x.at(a)), row_of(y.at(b)));
        if line.kind == Kind::Points && line.points.len() <= FEW {
            for point in line.points.iter().copied().filter(there) {
                let (column, row) = place(point);
                self.mark(column, row, index);
            }
            return;
        }
        // Now and then, each series at other places; between two points that are far apart too.
        let mut next = (2 * index + 1) * MARK_EVERY / (2 * count.max(1));
        for two in line.points.windows(2) {
            let [from, to] = [two[0], two[1]];
            if !there(&from) || !there(&to) {
                continue;
            }
            let (start, end) = (place(from).0, place(to).0);
            next += start.saturating_sub(next).next_multiple_of(MARK_EVERY);
            while next < end {
                let part = (next - start) as f64 / (end - start) as f64;
                self.mark(next, row_of(y.at(from.1 + (to.1 - from.1) * part)), index);
                next += MARK_EVERY;
            }
        }
    }

    /// Where two meet, the later one stands beside the other.
    fn mark(&mut self, column: usize, row: usize, index: usize) {
        for beside in 0..3 {
            let column = if column + beside < WIDTH { column + beside } else { column - beside };
            match self.marks.get_mut(row * WIDTH + column) {
                Some(Some(_)) => {}
                Some(free) => {
                    *free = Some(mark(index));
                    return;
                }
                None => return,
            }
        }
    }

    fn rows(&self) -> impl Iterator<Item = String> {
        self.dots.chunks(WIDTH).zip(self.marks.chunks(WIDTH)).map(|(dots, marks)| {
            let cell = |((dots, mark), change): ((&u8, &Option<char>), &bool)| match (mark, dots) {
                (Some(mark), _) => *mark,
                (None, 0) if *change => '┊',
                (None, 0) => ' ',
                (None, dots) => char::from_u32(0x2800 + u32::from(*dots)).unwrap_or(' '),
            };
            dots.iter().zip(marks).zip(&self.changes).map(cell).collect()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::Axis;
    use super::*;

    fn chart(lines: Vec<Line>) -> Chart {
        let x = Axis::doublings("readers", [1.0, 4.0, 16.0]);
        Chart { lines, ..Chart::new("Speeds", x, Axis::linear("MiB/s")) }
    }

    /// Row and column of each of these marks in the drawing.
    fn places(text: &str, mark: char) -> Vec<(usize, usize)> {
        let rows = text.lines().skip(2).take(HEIGHT).enumerate();
        rows.flat_map(|(row, line)| {
            line.chars()
                .enumerate()
                .skip(GUTTER)
                .filter(move |(_, one)| *one == mark)
                .map(move |(column, _)| (row, column))
        })
        .collect()
    }

    #[test]
    fn the_axes_carry_the_values_of_the_data_and_the_highest_point_is_where_it_is() {
        let model = Line::through("model", [(1.0, 650.0), (4.0, 5400.0), (16.0, 1400.0)]);
        let text = draw(&chart(vec![model, Line::level("default", 1.0, 16.0, 5000.0)]));
        let axis = text.lines().nth(2 + HEIGHT + 1).unwrap();
        assert_eq!(axis.split_whitespace().collect::<Vec<_>>(), ["1", "4", "16"], "{text}");
        for part in ["Speeds", "MiB/s", "readers", "o⠤ model", "x⠄ default", "2000", "6000"] {
            assert!(text.contains(part), "{part}: {text}");
        }
        let marks = places(&text, 'o');
        let highest = marks.iter().min().unwrap();
        assert_eq!(highest.1, GUTTER + WIDTH / 2, "in the middle, as 4 is between 1 and 16: {text}");
        assert_eq!(marks.len(), 3, "{text}");
        let lowest = marks.iter().max().unwrap();
        assert_eq!(lowest.1, GUTTER, "650 is with one reader: {text}");
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    }

    #[test]
    fn a_reference_is_level_and_dashed_and_a_gap_stays_empty() {
        let bound =
            Line::reference("oracle", [(0.0, 10.0), (1.0, 10.0), (2.0, f64::NAN), (3.0, 10.0), (4.0, 10.0)]);
        let mut chart = chart(vec![bound]);
        chart.x = Axis::linear("seconds");
        let text = draw(&chart);
        let top: Vec<char> = text.lines().nth(2).unwrap().chars().skip(GUTTER).collect();
        let empty = |range: std::ops::Range<usize>| top[range].iter().all(|one| *one == ' ');
        assert!(empty(WIDTH / 4 + 1..3 * WIDTH / 4 - 1), "{text}");
        assert!(!empty(0..WIDTH / 4) && !empty(3 * WIDTH / 4..top.len()), "{text}");
    }

    #[test]
    fn two_series_of_the_same_values_are_both_seen() {
        let same = [(1.0, 5.0), (4.0, 6.0), (16.0, 7.0)];
        let text = draw(&chart(vec![Line::through("a", same), Line::through("b", same)]));
        assert_eq!((places(&text, 'o').len(), places(&text, 'x').len()), (3, 3), "{text}");
    }

    #[test]
    fn nothing_and_what_is_no_number_is_drawn_as_nothing() {
        let odd = Line::through("odd", [(1.0, f64::NAN), (f64::INFINITY, 3.0)]);
        for chart in [chart(Vec::new()), chart(Vec::new()).with(odd.clone()), chart(vec![odd])] {
            assert!(places(&draw(&chart), 'o').is_empty());
        }
    }

    #[test]
    fn a_change_is_a_line_from_top_to_bottom() {
        let flat = Line::through("a", [(0.0, 1.0), (10.0, 1.0)]);
        let mut chart = chart(vec![flat]);
        (chart.x, chart.changes) = (Axis::linear("s"), vec![5.0]);
        let text = draw(&chart);
        assert_eq!(places(&text, '┊').len(), HEIGHT - 1, "all but where the series is: {text}");
    }
}
