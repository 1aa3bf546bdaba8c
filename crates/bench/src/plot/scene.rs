//! A drawing as a list of simple shapes, in pixels from the upper left corner.

/// Red, green, blue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Colour(pub u8, pub u8, pub u8);

pub(super) const WHITE: Colour = Colour(255, 255, 255);
pub(super) const INK: Colour = Colour(31, 35, 40);
pub(super) const FAINT_INK: Colour = Colour(101, 109, 118);
pub(super) const FRAME: Colour = Colour(140, 149, 159);
pub(super) const GRID: Colour = Colour(225, 228, 232);

/// Told apart by people who do not see all colours: after Okabe and Ito (2008), with two more.
const SERIES: [Colour; 10] = [
    Colour(0, 114, 178),
    Colour(213, 94, 0),
    Colour(0, 158, 115),
    Colour(204, 121, 167),
    Colour(230, 159, 0),
    Colour(86, 180, 233),
    Colour(106, 61, 154),
    Colour(120, 120, 120),
    Colour(150, 90, 40),
    Colour(20, 20, 20),
];

impl Colour {
    /// The colour of series number `index`.
    pub fn of_series(index: usize) -> Colour {
        SERIES.get(index % SERIES.len()).copied().unwrap_or(INK)
    }

    /// Half way to white.
    pub fn lighter(self) -> Colour {
        let half = |channel: u8| channel / 2 + 127;
        Colour(half(self.0), half(self.1), half(self.2))
    }
}

/// A position.
pub(super) type At = (f64, f64);

/// How a line is drawn.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Stroke {
    pub colour: Colour,
    pub width: f64,
    pub dashed: bool,
}

impl Stroke {
    pub fn thin(colour: Colour) -> Stroke {
        Stroke { colour, width: 1.0, dashed: false }
    }
}

/// Where a text stands, seen from its position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

/// A line of text; its position is on the base line.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Text {
    pub at: At,
    pub anchor: Anchor,
    pub size: f64,
    pub bold: bool,
    pub colour: Colour,
    /// Written upwards.
    pub upwards: bool,
    pub content: String,
}

impl Text {
    pub fn new(at: At, content: impl Into<String>) -> Text {
        Text {
            at,
            anchor: Anchor::Start,
            size: 12.0,
            bold: false,
            colour: INK,
            upwards: false,
            content: content.into(),
        }
    }

    pub fn anchor(mut self, anchor: Anchor) -> Text {
        self.anchor = anchor;
        self
    }

    pub fn size(mut self, size: f64) -> Text {
        self.size = size;
        self
    }

    pub fn bold(mut self) -> Text {
        self.bold = true;
        self
    }

    pub fn faint(mut self) -> Text {
        self.colour = FAINT_INK;
        self
    }
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Shape {
    /// Straight lines from point to point.
    Path {
        points: Vec<At>,
        stroke: Stroke,
    },
    /// A filled area, with a thin white edge if `edge`.
    Area {
        points: Vec<At>,
        fill: Colour,
        edge: bool,
    },
    /// A filled disc with a thin white edge.
    Disc {
        at: At,
        radius: f64,
        fill: Colour,
    },
    Text(Text),
}

/// A drawing.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Scene {
    pub width: f64,
    pub height: f64,
    pub shapes: Vec<Shape>,
}

impl Scene {
    pub fn line(&mut self, from: At, to: At, stroke: Stroke) {
        self.shapes.push(Shape::Path { points: vec![from, to], stroke });
    }

    pub fn rectangle(&mut self, (x, y): At, (width, height): At, fill: Colour) {
        let points = vec![(x, y), (x + width, y), (x + width, y + height), (x, y + height)];
        self.shapes.push(Shape::Area { points, fill, edge: false });
    }

    pub fn text(&mut self, text: Text) {
        self.shapes.push(Shape::Text(text));
    }

    /// The sign of series number `index` at a point: so that lines can be told apart without colours.
    pub fn marker(&mut self, index: usize, (x, y): At, fill: Colour) {
        let r = 4.0;
        let polygon = |points: &[At]| Shape::Area {
            points: points.iter().map(|(dx, dy)| (x + dx * r, y + dy * r)).collect(),
            fill,
            edge: true,
        };
        self.shapes.push(match index % 5 {
            0 => Shape::Disc { at: (x, y), radius: r, fill },
            1 => polygon(&[(-0.9, -0.9), (0.9, -0.9), (0.9, 0.9), (-0.9, 0.9)]),
            2 => polygon(&[(0.0, -1.15), (1.1, 0.85), (-1.1, 0.85)]),
            3 => polygon(&[(0.0, -1.25), (1.25, 0.0), (0.0, 1.25), (-1.25, 0.0)]),
            _ => polygon(&[(0.0, 1.15), (1.1, -0.85), (-1.1, -0.85)]),
        });
    }
}
