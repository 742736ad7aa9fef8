//! Tests of the documents: every link leads somewhere, and the book has every page.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};

use pulldown_cmark::{Event, Parser, Tag, TagEnd};

/// Pages beside the book.
const OTHERS: [&str; 6] =
    ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md", "python/README.md", "examples/README.md"];

struct Page {
    /// What the links and pictures name.
    links: Vec<String>,
    /// Names of its headings, as GitHub and mdBook make them.
    anchors: BTreeSet<String>,
}

impl Page {
    fn read(path: &Path) -> Self {
        let text = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let (mut links, mut anchors, mut heading) = (Vec::new(), BTreeSet::new(), None);
        for event in Parser::new_ext(&text, pulldown_cmark::Options::ENABLE_TABLES) {
            match event {
                Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
                    links.push(dest_url.into_string())
                }
                Event::Start(Tag::Heading { .. }) => heading = Some(String::new()),
                Event::End(TagEnd::Heading(_)) => anchors.extend(heading.take().map(|heading| slug(&heading))),
                Event::Text(text) | Event::Code(text) => {
                    if let Some(heading) = &mut heading {
                        heading.push_str(&text);
                    }
                }
                _ => {}
            }
        }
        Self { links, anchors }
    }
}

fn slug(heading: &str) -> String {
    let kept = heading.chars().filter(|character| character.is_alphanumeric() || "-_ ".contains(*character));
    kept.collect::<String>().to_lowercase().replace(' ', "-")
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

fn pages(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            pages(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "md") {
            found.push(path);
        }
    }
}

/// Without `.` and `..`.
fn plain(path: &Path) -> PathBuf {
    path.components().fold(PathBuf::new(), |mut plain, component| {
        match component {
            Component::CurDir => {}
            Component::ParentDir => {
                plain.pop();
            }
            other => plain.push(other),
        }
        plain
    })
}

#[test]
fn every_link_leads_somewhere() {
    let root = root();
    let mut paths: Vec<PathBuf> = OTHERS.iter().map(|name| root.join(name)).collect();
    pages(&root.join("docs"), &mut paths);
    let read: BTreeMap<&PathBuf, Page> = paths.iter().map(|path| (path, Page::read(path))).collect();
    let mut broken = Vec::new();
    let mut checked = 0;
    for (path, page) in &read {
        for link in page.links.iter().filter(|link| !link.contains("://") && !link.starts_with("mailto:")) {
            let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
            let target = if file.is_empty() { (*path).clone() } else { plain(&path.parent().unwrap().join(file)) };
            let is_there = match read.get(&target) {
                Some(page) => anchor.is_empty() || page.anchors.contains(anchor),
                None => target.exists(),
            };
            checked += 1;
            if !is_there {
                broken.push(format!("{}: {link}", path.strip_prefix(&root).unwrap().display()));
            }
        }
    }
    assert!(checked > 100, "{checked} links");
    assert!(broken.is_empty(), "links that lead nowhere:\n{}", broken.join("\n"));
}

#[test]
fn the_book_can_be_built() {
    let folder = tempfile::tempdir().unwrap();
    let mut book = mdbook_driver::MDBook::load(root().join("docs")).unwrap();
    book.config.build.build_dir = folder.path().to_owned();
    book.build().unwrap();
    for page in ["index.html", "start/first-kernel.html", "reference/commands.html", "images/session.svg"] {
        assert!(folder.path().join(page).is_file(), "{page}");
    }
}

#[test]
fn the_book_has_every_page() {
    let docs = root().join("docs");
    let summary = docs.join("SUMMARY.md");
    let listed: BTreeSet<PathBuf> = Page::read(&summary).links.iter().map(|link| plain(&docs.join(link))).collect();
    let mut written = Vec::new();
    pages(&docs, &mut written);
    let written: BTreeSet<PathBuf> = written.into_iter().filter(|path| *path != summary).collect();
    assert_eq!(listed, written);
}
