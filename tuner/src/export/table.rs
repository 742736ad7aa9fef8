//! CSV: a row for each trial and a column for each plain field.
//!
//! A plain field is not itself a structure: `config.block.x`, `result.opt_time`, ….

use std::collections::BTreeSet;
use std::path::Path;

use super::ExportError;
use crate::archive::{Archive, flat, plain};

/// The first columns, in this order. The others follow by name.
const FIRST: [&str; 4] = ["trial", "metric", "speedup", "result.status"];

/// Writes the table.
pub fn write(archive: &Archive, path: &Path) -> Result<(), ExportError> {
    let failed = ExportError::of(path);
    let rows: Vec<_> = archive.trials.iter().map(|trial| flat(&trial.line)).collect();
    let others: BTreeSet<&String> =
        rows.iter().flat_map(|row| row.keys()).filter(|key| !FIRST.contains(&key.as_str())).collect();
    let columns: Vec<&str> = FIRST.into_iter().chain(others.into_iter().map(String::as_str)).collect();
    let mut writer = csv::Writer::from_writer(Vec::new());
    let wrong = |error: csv::Error| failed(error.into());
    writer.write_record(&columns).map_err(wrong)?;
    for row in &rows {
        let field = |name: &&str| row.get(*name).filter(|value| !value.is_null()).map_or_else(String::new, plain);
        writer.write_record(columns.iter().map(field)).map_err(wrong)?;
    }
    let text = writer.into_inner().map_err(|error| failed(error.into_error()))?;
    crate::results::replace(path, &text).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::archive::tests::folder;

    #[test]
    fn every_trial_is_a_row_and_fields_are_columns() {
        let folder = folder(30);
        let path = folder.path().join("trials.csv");
        write(&Archive::read(folder.path()).unwrap(), &path).unwrap();
        let mut reader = csv::Reader::from_path(&path).unwrap();
        let headers = reader.headers().unwrap().clone();
        assert_eq!(headers.iter().take(4).collect::<Vec<_>>(), FIRST);
        let place =
            |name: &str| headers.iter().position(|header| header == name).unwrap_or_else(|| panic!("no column {name}"));
        let rows: Vec<_> = reader.records().map(Result::unwrap).collect();
        assert_eq!(rows.len(), 30);
        assert_eq!((&rows[1][place("config.block.x")], &rows[1][place("result.exec_time")]), ("64", "1,2,3"));
        assert_eq!((&rows[7][place("metric")], &rows[7][place("result.status")]), ("", "compile_error"));
        assert!(rows[7][place("result.error")].contains("<script>"));
    }

    /// The trial's line still says that it verified.
    #[test]
    fn a_refuted_trial_has_no_metric() {
        let folder = folder(30);
        let summary = r#"{"refuted": {"5": "it differs", "6": "it is missing"}, "untested": [6]}"#;
        std::fs::write(folder.path().join("summary.json"), summary).unwrap();
        let path = folder.path().join("trials.csv");
        write(&Archive::read(folder.path()).unwrap(), &path).unwrap();
        let mut reader = csv::Reader::from_path(&path).unwrap();
        let headers = reader.headers().unwrap().clone();
        let rows: Vec<_> = reader.records().map(Result::unwrap).collect();
        let told = |row: usize| {
            ["metric", "speedup", "result.status", "result.verified", "result.error"]
                .map(|name| &rows[row][headers.iter().position(|header| header == name).unwrap()])
        };
        assert_eq!(told(5), ["", "", "failed_verification", "false", "it differs"]);
        assert_eq!(told(6), ["", "", "internal_error", "false", "it is missing"]);
        assert_eq!(told(8)[2..4], ["verified", "true"]);
    }
}
