//! Plain tables: aligned columns, no lines, so that they can be read and cut.

use super::terminal::Style;

/// Label and value pairs, one a line, values aligned.
#[derive(Debug, Default)]
pub struct Fields {
    rows: Vec<(String, String)>,
}

impl Fields {
    /// Adds a line.
    pub fn add(&mut self, label: &str, value: impl Into<String>) -> &mut Fields {
        self.rows.push((label.to_owned(), value.into()));
        self
    }

    /// The text, each line ending in a newline, indented by `indent` spaces.
    pub fn render(&self, indent: usize) -> String {
        let width = self.rows.iter().map(|(label, _)| label.chars().count()).max().unwrap_or(0);
        self.rows
            .iter()
            .map(|(label, value)| {
                let padding = width - label.chars().count();
                format!("{:indent$}{label}{:padding$}  {value}\n", "", "")
            })
            .collect()
    }
}

/// How a column's cells stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Align {
    /// Text.
    Left,
    /// Numbers.
    Right,
}

/// A cell, and how it stands out on a terminal.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Cell {
    /// Its text, on one line.
    pub text: String,
    /// Its style.
    pub style: Style,
}

impl Cell {
    /// A cell of this style.
    pub fn new(text: impl Into<String>, style: Style) -> Cell {
        Cell { text: text.into(), style }
    }
}

impl<T: Into<String>> From<T> for Cell {
    fn from(text: T) -> Cell {
        Cell::new(text, Style::Plain)
    }
}

/// Rows under headings.
#[derive(Debug)]
pub struct Table {
    columns: Vec<(String, Align)>,
    rows: Vec<Vec<Cell>>,
}

impl Table {
    /// A table with these headings.
    pub fn new(columns: &[(&str, Align)]) -> Table {
        Table { columns: columns.iter().map(|(n, a)| ((*n).to_owned(), *a)).collect(), rows: Vec::new() }
    }

    /// Adds a row; missing cells stay empty, surplus ones are dropped.
    pub fn row(&mut self, cells: Vec<String>) {
        self.styled_row(cells.into_iter().map(Cell::from).collect());
    }

    /// Adds a row whose cells may stand out.
    pub fn styled_row(&mut self, cells: Vec<Cell>) {
        self.rows.push(cells);
    }

    /// The text, headings first, indented by `indent` spaces.
    pub fn render(&self, indent: usize) -> String {
        self.render_in(indent, false)
    }

    /// Like [`Table::render`]; with `colour`, for a terminal (see [`colour_wanted`](super::colour_wanted)).
    pub fn render_in(&self, indent: usize, colour: bool) -> String {
        let widths = self.widths(|cell| cell.chars().count());
        let headings: Vec<Cell> = self.columns.iter().map(|(n, _)| Cell::new(n, Style::Bold)).collect();
        let mut out = String::new();
        for row in std::iter::once(&headings).chain(&self.rows) {
            let mut line = " ".repeat(indent);
            let mut pending = String::new();
            for (i, (width, (_, align))) in widths.iter().zip(&self.columns).enumerate() {
                let empty = Cell::default();
                let cell = row.get(i).unwrap_or(&empty);
                let padding = " ".repeat(width.saturating_sub(cell.text.chars().count()));
                let painted = cell.style.paint(&cell.text, colour);
                // Spaces are written when something follows them.
                if *align == Align::Right {
                    pending.push_str(&padding);
                }
                if !cell.text.is_empty() {
                    line.extend([std::mem::take(&mut pending), painted]);
                }
                if *align == Align::Left {
                    pending.push_str(&padding);
                }
                pending.push_str("  ");
            }
            out.push_str(line.trim_end());
            out.push('\n');
        }
        out
    }

    /// As a Markdown table (GitHub's), readable as plain text too. Styles are left out.
    pub fn markdown(&self) -> String {
        let escaped = |text: &str| text.replace('|', "\\|");
        let widths: Vec<usize> =
            self.widths(|cell| escaped(cell).chars().count()).into_iter().map(|width| width.max(3)).collect();
        let mut out = String::new();
        let mut line = |cells: Vec<String>| {
            out.push('|');
            for cell in cells {
                out.extend([" ", &cell, " |"]);
            }
            out.push('\n');
        };
        let pad = |text: &str, width: usize, align: Align| match align {
            Align::Left => format!("{text:<width$}"),
            Align::Right => format!("{text:>width$}"),
        };
        let columns = || self.columns.iter().zip(&widths);
        line(columns().map(|((name, align), width)| pad(&escaped(name), *width, *align)).collect());
        line(
            columns()
                .map(|((_, align), width)| match align {
                    Align::Left => "-".repeat(*width),
                    Align::Right => format!("{}:", "-".repeat(width - 1)),
                })
                .collect(),
        );
        for row in &self.rows {
            let text = |i: usize| row.get(i).map_or(String::new(), |cell| escaped(&cell.text));
            line(
                columns().enumerate().map(|(i, ((_, align), width))| pad(&text(i), *width, *align)).collect(),
            );
        }
        out
    }

    fn widths(&self, width: impl Fn(&str) -> usize) -> Vec<usize> {
        self.columns
            .iter()
            .enumerate()
            .map(|(i, (name, _))| {
                let cells = self.rows.iter().filter_map(|row| row.get(i)).map(|cell| width(&cell.text));
                cells.chain([width(name)]).max().unwrap_or(0)
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up() {
        let mut table = Table::new(&[("name", Align::Left), ("size", Align::Right)]);
        table.row(vec!["été".into(), "1".into()]);
        table.row(vec!["a".into(), "1000".into()]);
        table.row(vec!["short".into()]);
        assert_eq!(table.render(1), " name   size\n été       1\n a      1000\n short\n");
    }

    #[test]
    fn colours_do_not_move_columns() {
        let mut table = Table::new(&[("name", Align::Left), ("n", Align::Right), ("what", Align::Left)]);
        table.styled_row(vec!["a".into(), Cell::new("12", Style::Bad), "x".into()]);
        table.styled_row(vec![Cell::new("longer", Style::Good), "3".into()]);
        let coloured = table.render_in(0, true);
        assert!(coloured.contains("\x1b[31m12\x1b[0m"), "{coloured:?}");
        let mut bare = coloured;
        for code in ["\x1b[0m", "\x1b[1m", "\x1b[31m", "\x1b[32m"] {
            bare = bare.replace(code, "");
        }
        assert_eq!(bare, table.render(0));
    }

    #[test]
    fn markdown_tables_keep_their_columns() {
        let mut table = Table::new(&[("case", Align::Left), ("s", Align::Right)]);
        table.row(vec!["a|b".into(), "1.5".into()]);
        table.row(vec!["c".into()]);
        assert_eq!(table.markdown(), "| case |   s |\n| ---- | --: |\n| a\\|b | 1.5 |\n| c    |     |\n");
    }

    #[test]
    fn fields_line_up() {
        let mut fields = Fields::default();
        fields.add("a", "1").add("long", "2");
        assert_eq!(fields.render(2), "  a     1\n  long  2\n");
    }
}
