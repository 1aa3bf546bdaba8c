//! Plain tables: aligned columns, no lines, so that they can be read and cut.

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

/// Rows under headings.
#[derive(Debug)]
pub struct Table {
    columns: Vec<(String, Align)>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table with these headings.
    pub fn new(columns: &[(&str, Align)]) -> Table {
        Table { columns: columns.iter().map(|(n, a)| ((*n).to_owned(), *a)).collect(), rows: Vec::new() }
    }

    /// Adds a row; missing cells stay empty, surplus ones are dropped.
    pub fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }

    /// The text, headings first, indented by `indent` spaces.
    pub fn render(&self, indent: usize) -> String {
        let widths: Vec<usize> = self
            .columns
            .iter()
            .enumerate()
            .map(|(i, (name, _))| {
                let cells = self.rows.iter().filter_map(|r| r.get(i)).map(|c| c.chars().count());
                cells.chain([name.chars().count()]).max().unwrap_or(0)
            })
            .collect();
        let headings = self.columns.iter().map(|(n, _)| n.clone()).collect();
        let mut out = String::new();
        for row in std::iter::once(&headings).chain(&self.rows) {
            let mut line = " ".repeat(indent);
            for (i, (width, (_, align))) in widths.iter().zip(&self.columns).enumerate() {
                let cell = row.get(i).map_or("", String::as_str);
                let padding = " ".repeat(width.saturating_sub(cell.chars().count()));
                match align {
                    Align::Left => line.extend([cell, &padding]),
                    Align::Right => line.extend([padding.as_str(), cell]),
                }
                line.push_str("  ");
            }
            out.push_str(line.trim_end());
            out.push('\n');
        }
        out
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
    fn fields_line_up() {
        let mut fields = Fields::default();
        fields.add("a", "1").add("long", "2");
        assert_eq!(fields.render(2), "  a     1\n  long  2\n");
    }
}
