//! Formats aligned columns of text.

/// Alignment of a column's cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Align {
    Left,
    Right,
}

/// Formats rows in columns, two spaces apart. The first row is the heading.
pub fn render(columns: &[Align], rows: &[Vec<String>]) -> String {
    let width = |column: usize| {
        rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns.len()).map(width).collect();
    let mut text = String::new();
    for row in rows {
        let cells = row.iter().zip(columns).zip(&widths).map(|((cell, align), width)| match align {
            Align::Left => format!("{cell:<width$}"),
            Align::Right => format!("{cell:>width$}"),
        });
        text.push_str(cells.collect::<Vec<_>>().join("  ").trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up() {
        let rows = [
            vec!["NAME".to_owned(), "SIZE".into()],
            vec!["a".into(), "1".into()],
            vec!["long name".into(), "12345".into()],
        ];
        assert_eq!(
            render(&[Align::Left, Align::Right], &rows),
            "NAME        SIZE\na              1\nlong name  12345\n"
        );
        assert_eq!(render(&[Align::Left, Align::Left], &rows[..2]), "NAME  SIZE\na     1\n");
    }
}
