//! Tests of the page as a whole.

use super::*;
use crate::archive::tests::folder;

/// The page for this number of trials.
fn page_of(trials: u64) -> String {
    let folder = folder(trials);
    let path = write(folder.path(), None).unwrap();
    assert_eq!(path, folder.path().join(FILE));
    std::fs::read_to_string(path).unwrap()
}

/// Asserts that every element has its own end tag; browsers repair missing ones silently.
pub fn assert_well_formed(page: &str) {
    const VOID: [&str; 2] = ["meta", "br"];
    let mut open: Vec<&str> = Vec::new();
    let mut rest = page.strip_prefix("<!DOCTYPE html>").expect("a document type");
    while let Some(start) = rest.find('<') {
        rest = &rest[start..];
        let end = rest.find('>').expect("every tag ends");
        let tag = &rest[1..end];
        rest = &rest[end + 1..];
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop(), Some(name), "before {}", &rest[..rest.len().min(80)]);
            continue;
        }
        let name = tag.split(|character: char| character.is_whitespace()).next().unwrap();
        assert!(!name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric()), "<{tag}>");
        assert_eq!(tag.matches('"').count() % 2, 0, "<{tag}>");
        if VOID.contains(&name) {
            continue;
        }
        open.push(name);
        // These elements do not contain markup.
        if ["script", "style"].contains(&name) {
            rest = &rest[rest.find(&format!("</{name}>")).expect("an end")..];
        }
    }
    assert!(open.is_empty(), "{open:?}");
}

#[test]
fn the_page_is_whole_and_needs_nothing_else() {
    let page = page_of(240);
    assert_well_formed(&page);
    let without_namespace = page.replace("http://www.w3.org/2000/svg", "");
    for remote in ["http:", "https:", "//cdn", " src=", "@import", "url(", "<link"] {
        assert!(!without_namespace.contains(remote), "{remote}");
    }
    for part in [
        "vecadd&lt;long&gt;",
        "NVIDIA &lt;H200&gt;",
        "Winner",
        "Parallel coordinates",
        "Importance of parameters",
        "Heat map",
        "Failures",
        "Fastest trials",
        "Environment",
        "19.1.7",
        "1900 to 1902 MHz",
        "mneme replay -rdb 'it'\\''s here/7.json' -rid 9",
        "--iterations=5",
        "PROTEUS_TUNED_KERNELS=",
        "memory differs from the recording in a buffer of 16384 bytes",
    ] {
        let escaped = part.replace('\'', "&#39;");
        assert!(page.contains(part) || page.contains(&escaped), "{part} is missing");
    }
}

#[test]
fn nothing_that_was_recorded_is_markup() {
    let page = page_of(60);
    assert!(!page.contains("<script>alert"), "an error became an element");
    assert!(page.contains("&lt;script&gt;alert"));
    let start = page.find("id=\"data\">").unwrap() + "id=\"data\">".len();
    let data = &page[start..start + page[start..].find("</script>").unwrap()];
    assert!(!data.contains('<'));
    let data: serde_json::Value = serde_json::from_str(data).unwrap();
    assert_eq!(data["trials"].as_array().unwrap().len(), 60);
    let passes = data["parameters"].as_array().unwrap().iter().find(|it| it["name"] == "passes").unwrap();
    assert_eq!(passes["levels"][0], "default<O0>");
}

#[test]
fn ten_thousand_trials_fit() {
    let folder = folder(10_000);
    let start = std::time::Instant::now();
    let path = write(folder.path(), None).unwrap();
    let size = std::fs::metadata(&path).unwrap().len();
    assert!(size < 5 << 20, "{size} bytes");
    assert!(start.elapsed().as_secs() < 30, "{:?}", start.elapsed());
    let page = std::fs::read_to_string(path).unwrap();
    assert_well_formed(&page);
    // Browsers lay out elements. A path with many points is one element.
    assert!(page.matches('<').count() < 5_000, "{} elements", page.matches('<').count() / 2);
}

#[test]
fn sessions_without_a_winner_have_a_page_too() {
    let folder = folder(0);
    std::fs::write(folder.path().join("baseline.json"), r#"{"metric": null, "result": {"error": "LLVM <crashed>"}}"#)
        .unwrap();
    let page = std::fs::read_to_string(write(folder.path(), None).unwrap()).unwrap();
    assert_well_formed(&page);
    assert!(page.contains("No winner") && page.contains("LLVM &lt;crashed&gt;"));
    for trials in [1, 2, 5, 11] {
        assert_well_formed(&page_of(trials));
    }
    assert!(matches!(write(&folder.path().join("none"), None), Err(ReportError::Archive(_))));
}

#[test]
fn a_confirmation_and_several_objectives_are_shown() {
    let folder = folder(40);
    let write_json =
        |name: &str, value: serde_json::Value| std::fs::write(folder.path().join(name), value.to_string()).unwrap();
    let finalist = serde_json::json!({"trial": 6, "speedup": {"estimate": 1.122, "low": 1.108, "high": 1.136}, "rounds": 12, "fate": "faster"});
    let confirmation = serde_json::json!({"confidence": 0.95, "rounds": 12, "baseline": 2000.0, "significant": true, "finalists": [finalist]});
    write_json(
        "summary.json",
        serde_json::json!({"verdict": "confirmed: speedup 1.122 over the baseline", "confirmation": confirmation, "elapsed_s": 4.0, "num_resumed": 0}),
    );
    let text = std::fs::read_to_string(folder.path().join("trials.jsonl")).unwrap();
    let lines: Vec<String> = text
        .lines()
        .map(|line| {
            let mut line: serde_json::Value = serde_json::from_str(line).unwrap();
            line["objectives"] = serde_json::json!([line["metric"], 32]);
            if line["trial"] == 5 {
                (line["stopped"], line["metric"]) = (line["metric"].clone(), serde_json::Value::Null);
            }
            line.to_string()
        })
        .collect();
    std::fs::write(folder.path().join("trials.jsonl"), lines.join("\n")).unwrap();
    write_json("pareto.json", serde_json::json!({"objectives": ["time", "registers"], "trials": [{"trial": 6}]}));
    let page = std::fs::read_to_string(write(folder.path(), None).unwrap()).unwrap();
    assert_well_formed(&page);
    for part in [
        "1.12×", "1.11 to 1.14, 95 % confidence", "Confirmed: speedup 1.122", "faster", "Pareto front",
        "1 of them given up early", "10 trials a second",
    ] {
        let joined = page.replace("</strong><span>", " ");
        assert!(page.contains(part) || joined.contains(part), "{part} is missing");
    }
}
