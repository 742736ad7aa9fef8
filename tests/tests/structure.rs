//! Tests of the layout of the source.
//!
//! In each crate, modules do not depend on each other in cycles, or on their crate's root. Every module's first line is
//! one sentence that says what the module is. Errors have types. Declarations of vendors' functions and structures are
//! in one crate. Crates depend on each other in one direction, and have the same features in every build.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use syn::visit::Visit;

/// The folders of programs and of libraries loaded into applications.
const PROGRAMS: [&str; 8] = ["cc", "cli", "compiler", "cpu", "interposer", "mcp", "replayer", "tuner"];
/// Declarations, which may refer to each other freely.
const DECLARATIONS: &str = "crates/abi";

fn top() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

/// The folders of all crates in the programs.
fn crates() -> Vec<String> {
    let libraries = std::fs::read_dir(top().join("crates")).unwrap().map(|entry| entry.unwrap().file_name());
    let libraries = libraries.map(|name| format!("crates/{}", name.to_str().unwrap()));
    PROGRAMS.map(str::to_owned).into_iter().chain(libraries).collect()
}

type ModulePath = Vec<String>;

/// The paths of a file that begin with `crate`, `super` or `self`, without those of tests.
#[derive(Default)]
struct Paths(Vec<Vec<String>>);

impl Paths {
    fn tree(&mut self, before: &[String], tree: &syn::UseTree) {
        let with = |name: &syn::Ident| before.iter().cloned().chain([name.to_string()]).collect::<Vec<_>>();
        match tree {
            syn::UseTree::Path(path) => self.tree(&with(&path.ident), &path.tree),
            syn::UseTree::Name(name) => self.0.push(with(&name.ident)),
            syn::UseTree::Rename(name) => self.0.push(with(&name.ident)),
            syn::UseTree::Glob(_) => self.0.push(before.to_vec()),
            syn::UseTree::Group(group) => group.items.iter().for_each(|item| self.tree(before, item)),
        }
    }
}

impl<'a> Visit<'a> for Paths {
    fn visit_item_mod(&mut self, module: &'a syn::ItemMod) {
        let is_test = |attribute: &syn::Attribute| {
            attribute.path().is_ident("cfg")
                && attribute.parse_args::<syn::Path>().is_ok_and(|condition| condition.is_ident("test"))
        };
        if !module.attrs.iter().any(is_test) {
            syn::visit::visit_item_mod(self, module);
        }
    }

    fn visit_item_use(&mut self, item: &'a syn::ItemUse) {
        self.tree(&[], &item.tree);
    }

    fn visit_path(&mut self, path: &'a syn::Path) {
        self.0.push(path.segments.iter().map(|segment| segment.ident.to_string()).collect());
        syn::visit::visit_path(self, path);
    }
}

/// The Rust files below a folder, without those of tests and programs.
fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        match path.is_dir() {
            true if name != "tests" && name != "bin" => files(&path, found),
            false if name.ends_with(".rs") && name != "tests.rs" => found.push(path),
            _ => {}
        }
    }
}

fn module_of(root: &Path, file: &Path) -> ModulePath {
    let path = file.strip_prefix(root).unwrap().with_extension("");
    let mut names: ModulePath = path.iter().map(|name| name.to_str().unwrap().to_owned()).collect();
    if names.last().is_some_and(|name| ["mod", "lib", "main"].contains(&name.as_str())) {
        names.pop();
    }
    names
}

/// The dependencies between the modules of a crate.
#[derive(Default)]
struct Arrows {
    /// The modules that each module uses, grouped by their common folder.
    uses: BTreeMap<ModulePath, BTreeMap<String, BTreeSet<String>>>,
    /// Modules that use items of the crate's root, and these items.
    to_root: Vec<String>,
}

fn arrows(root: &Path) -> Arrows {
    let mut found = Vec::new();
    files(root, &mut found);
    let modules: BTreeSet<ModulePath> = found.iter().map(|file| module_of(root, file)).collect();
    let mut arrows = Arrows::default();
    for file in &found {
        let user = module_of(root, file);
        let mut paths = Paths::default();
        paths.visit_file(&syn::parse_file(&std::fs::read_to_string(file).unwrap()).unwrap());
        for path in paths.0 {
            let mut names = path.iter().peekable();
            let mut used = match names.peek().map(|name| name.as_str()) {
                Some("crate") => ModulePath::new(),
                Some("super" | "self") => user.clone(),
                _ => continue,
            };
            while let Some(name) = names.next_if(|name| ["crate", "super", "self"].contains(&name.as_str())) {
                if name == "super" {
                    used.pop();
                }
            }
            let first = names.peek().map(|name| (*name).clone());
            for name in names {
                used.push(name.clone());
                if !modules.contains(&used) {
                    used.pop();
                    break;
                }
            }
            if let Some(item) = first.filter(|_| used.is_empty() && !user.is_empty()) {
                arrows.to_root.push(format!("{} → {item}", user.join("::")));
            }
            let common = user.iter().zip(&used).take_while(|(one, other)| one == other).count();
            if let (Some(one), Some(other)) = (user.get(common), used.get(common)) {
                let folder = arrows.uses.entry(user[..common].to_vec()).or_default();
                folder.entry(one.clone()).or_default().insert(other.clone());
            }
        }
    }
    arrows
}

/// A path from `module` back to itself.
fn circle(uses: &BTreeMap<String, BTreeSet<String>>, module: &str) -> Option<Vec<String>> {
    let mut ways = vec![vec![module.to_owned()]];
    let mut seen = BTreeSet::new();
    while let Some(way) = ways.pop() {
        for next in uses.get(way.last()?).into_iter().flatten() {
            let longer: Vec<String> = way.iter().cloned().chain([next.clone()]).collect();
            if next == module {
                return Some(longer);
            }
            if seen.insert(next.clone()) {
                ways.push(longer);
            }
        }
    }
    None
}

#[test]
fn no_modules_use_each_other_in_a_circle() {
    let (mut faults, mut count) = (Vec::new(), 0);
    for name in crates().iter().filter(|name| *name != DECLARATIONS) {
        let Arrows { uses, to_root } = arrows(&top().join(name).join("src"));
        for (folder, uses) in uses {
            count += uses.len();
            let found = uses.keys().find_map(|module| circle(&uses, module));
            faults.extend(found.map(|way| format!("{name}/src/{}: {}", folder.join("/"), way.join(" → "))));
        }
        // The root uses all modules.
        faults.extend(to_root.iter().map(|arrow| format!("{name}/src: {arrow}, which is in the root")));
    }
    assert!(count > 100, "{count} modules use others");
    assert!(faults.is_empty(), "{faults:#?}");
}

/// The workspace crates that a crate depends on, except in its tests.
fn dependencies(folder: &str) -> BTreeSet<String> {
    let manifest = std::fs::read_to_string(top().join(folder).join("Cargo.toml")).unwrap();
    let section = manifest.split("\n[").find(|section| section.starts_with("dependencies]")).unwrap_or_default();
    section.lines().filter_map(|line| line.strip_prefix("mneme-")?.split('.').next()).map(str::to_owned).collect()
}

#[test]
fn crates_use_only_those_that_the_book_lists_above_them() {
    let page = std::fs::read_to_string(top().join("docs/how-it-works/architecture.md")).unwrap();
    let listed: Vec<String> = listed_folders(&page).into_iter().filter(|name| crates().contains(name)).collect();
    assert_eq!(BTreeSet::from_iter(listed.clone()), BTreeSet::from_iter(crates()), "the page lists all crates");
    let of_crates = |name: &String| dependencies(name).into_iter().map(|it| format!("crates/{it}")).collect();
    let uses: BTreeMap<String, BTreeSet<String>> = listed.iter().map(|name| (name.clone(), of_crates(name))).collect();
    assert!(uses["cli"].len() > 5, "{uses:?}");
    let faults = uses_out_of_order(&listed, &uses);
    assert!(faults.is_empty(), "{faults:#?}");
}

/// Packages with their features, as Cargo would build them, on request with those of tests.
fn packages(selection: &[&str], tests: bool) -> BTreeSet<String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let edges = if tests { "normal,build,dev" } else { "normal,build" };
    let words = ["tree", "--offline", "--prefix", "none", "--format", "{p} {f}", "--edges", edges];
    let mut command = std::process::Command::new(cargo);
    // This user setting would give every build the same features.
    command.env_remove("CARGO_RESOLVER_FEATURE_UNIFICATION");
    let output = command.args(words).args(selection).current_dir(top()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().map(|line| line.trim_end_matches(" (*)").trim_end().to_owned()).collect()
}

/// Otherwise successive commands recompile each other's packages. crates/workspace-hack names the features.
#[test]
fn crates_have_the_same_features_in_every_build() {
    let all = packages(&["--workspace"], true);
    let demo = ["-p", "mneme-rec", "-p", "mneme-cpu", "-p", "mneme-compiler", "-p", "mneme-cc"];
    let builds: [(&[&str], bool); 8] = [
        (&["--workspace"], false),
        (&[], false),
        (&demo, false),
        (&["-p", "mneme-rec"], true),
        (&["-p", "mneme-tuner"], true),
        (&["-p", "mneme-e2e"], true),
        (&["-p", "mneme-model"], true),
        (&["--workspace", "--exclude", "mneme-e2e"], true),
    ];
    for (selection, tests) in builds {
        let packages = packages(selection, tests);
        assert!(packages.len() > 20, "{packages:?}");
        let others: Vec<_> = packages.difference(&all).collect();
        assert!(others.is_empty(), "{selection:?}: {others:#?}");
    }
}

#[test]
fn arrows_to_the_root_are_found() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    write("lib.rs", "pub mod a;\npub mod b;\npub use a::A;");
    write("a.rs", "pub(crate) struct A;\n#[cfg(test)]\nmod tests {\n    use crate::A;\n}");
    assert!(arrows(folder.path()).to_root.is_empty());
    write("b.rs", "use crate::a::A;\nfn b() -> super::A { crate::A }");
    assert_eq!(arrows(folder.path()).to_root, ["b → A", "b → A"]);
}

/// The folders that a page's table lists in its first column, in its order.
fn listed_folders(page: &str) -> Vec<String> {
    let first_cells = page.lines().filter_map(|line| line.strip_prefix("| `")?.split_once(" |")).map(|(cell, _)| cell);
    first_cells.flat_map(|cell| cell.split('`').filter_map(|word| word.strip_suffix('/'))).map(str::to_owned).collect()
}

/// Folders that use a folder listed below them.
fn uses_out_of_order(listed: &[String], uses: &BTreeMap<String, BTreeSet<String>>) -> Vec<String> {
    let place = |name: &String| listed.iter().position(|it| it == name);
    let pairs = uses.iter().flat_map(|(user, used)| used.iter().map(move |used| (user, used)));
    pairs.filter(|(user, used)| place(user) <= place(used)).map(|(user, used)| format!("{user} → {used}")).collect()
}

#[test]
fn folders_use_only_those_that_the_book_lists_above_them() {
    for (source, page) in [("interposer/src", "why-the-driver.md"), ("replayer/src", "processes.md")] {
        let source = top().join(source);
        let listed = listed_folders(&std::fs::read_to_string(top().join("docs/how-it-works").join(page)).unwrap());
        let within = std::fs::read_dir(&source).unwrap().map(|entry| entry.unwrap().path());
        let names =
            within.filter(|path| path.is_dir()).map(|path| path.file_name().unwrap().to_str().unwrap().to_owned());
        // Programs are separate crates.
        let folders: BTreeSet<String> = names.filter(|name| name != "bin").collect();
        assert_eq!(BTreeSet::from_iter(listed.clone()), folders, "{page} lists the folders that there are");
        let mut between = arrows(&source).uses.remove(&ModulePath::new()).unwrap();
        // The table omits files next to the folders.
        between.retain(|name, _| folders.contains(name));
        between.values_mut().for_each(|used| used.retain(|name| folders.contains(name)));
        let faults = uses_out_of_order(&listed, &between);
        assert!(!between.is_empty() && faults.is_empty(), "{page}: {faults:#?}");
    }
}

#[test]
fn uses_out_of_order_are_found() {
    let listed = listed_folders("| folder | holds |\n| `one/`, `two/` | `f` |\n| `three/` | 3 |\n");
    assert_eq!(listed, ["one", "two", "three"]);
    let uses = |user: &str, used: &str| BTreeMap::from([(user.to_owned(), BTreeSet::from([used.to_owned()]))]);
    assert!(uses_out_of_order(&listed, &uses("three", "one")).is_empty());
    assert_eq!(uses_out_of_order(&listed, &uses("one", "two")), ["one → two"]);
}

#[test]
fn circles_are_found() {
    let uses = |pairs: &[(&str, &str)]| {
        let mut uses: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        pairs.iter().for_each(|(one, other)| {
            uses.entry((*one).into()).or_default().insert((*other).into());
        });
        uses
    };
    assert_eq!(circle(&uses(&[("a", "b"), ("b", "c"), ("a", "c")]), "a"), None);
    assert_eq!(circle(&uses(&[("a", "b"), ("b", "c"), ("c", "a")]), "a").unwrap(), ["a", "b", "c", "a"]);
}

/// The Rust files of a crate, including tests and programs.
fn all_files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        match path.is_dir() {
            true if name != "target" && !name.starts_with('.') => all_files(&path, found),
            false if name.ends_with(".rs") => found.push(path),
            _ => {}
        }
    }
}

/// The fault of a module's first line, if it has one. The line must be one short sentence, in its own paragraph, that
/// says what the module is.
fn fault_of_first_line(source: &str) -> Option<&'static str> {
    let mut lines = source.lines();
    let Some(sentence) = lines.next().and_then(|line| line.strip_prefix("//! ")) else {
        return Some("does not begin with `//! `");
    };
    if lines.next().is_some_and(|line| line.starts_with("//! ")) {
        return Some("goes on in the second line; further text is a paragraph of its own");
    }
    if sentence.chars().count() > 100 {
        return Some("is longer than 100 characters");
    }
    if !sentence.ends_with('.') || sentence.contains(". ") {
        return Some("is not one sentence");
    }
    ["What ", "Which ", "Who ", "How ", "Where ", "When ", "Why ", "Whether "]
        .iter()
        .any(|word| sentence.starts_with(word))
        .then_some("asks what the module is instead of saying it")
}

#[test]
fn the_first_line_of_every_module_says_what_it_is() {
    let mut faults = Vec::new();
    for name in crates().into_iter().chain(["fuzz", "tests"].map(str::to_owned)) {
        let mut found = Vec::new();
        all_files(&top().join(&name), &mut found);
        assert!(!found.is_empty(), "{name}");
        for file in found {
            let fault = fault_of_first_line(&std::fs::read_to_string(&file).unwrap());
            faults.extend(
                fault.map(|fault| format!("{}: the first line {fault}", file.strip_prefix(top()).unwrap().display())),
            );
        }
    }
    assert!(faults.is_empty(), "{faults:#?}");
}

#[test]
fn faults_of_first_lines_are_found() {
    assert_eq!(fault_of_first_line("//! The queue.\n//!\n//! It has two ends. Both are open.\nuse a;"), None);
    assert_eq!(fault_of_first_line("//! The queue.\n\nuse a;"), None);
    let long = format!("//! The {}queue.", "long ".repeat(20));
    for bad in [
        "use a;", "//! The queue,\n//! with two ends.", "//! What waits.", "//! Whether it waits.", "//! The queue",
        "//! A queue. It has two ends.", &long,
    ] {
        assert!(fault_of_first_line(bad).is_some(), "{bad}");
    }
}

/// The number of uses of `Result<_, String>` in a file: callers can tell such errors apart only by their text.
#[derive(Default)]
struct BareErrors(usize);

impl<'a> Visit<'a> for BareErrors {
    fn visit_path_segment(&mut self, segment: &'a syn::PathSegment) {
        if let syn::PathArguments::AngleBracketed(arguments) = &segment.arguments
            && let Some(syn::GenericArgument::Type(syn::Type::Path(error))) = arguments.args.iter().nth(1)
        {
            self.0 += usize::from(segment.ident == "Result" && error.path.is_ident("String"));
        }
        syn::visit::visit_path_segment(self, segment);
    }
}

#[test]
fn errors_are_more_than_text() {
    let count = |source: &str| {
        let mut found = BareErrors::default();
        found.visit_file(&syn::parse_file(source).unwrap());
        found.0
    };
    assert_eq!(count("fn a() -> Option<Result<u8, String>> { None } fn b() -> Result<String, ()> { Err(()) }"), 1);
    let mut found = Vec::new();
    for name in crates().into_iter().chain(["fuzz", "tests"].map(str::to_owned)) {
        files(&top().join(&name), &mut found);
    }
    found.retain(|file| count(&std::fs::read_to_string(file).unwrap()) > 0);
    assert!(found.is_empty(), "give these errors a type: {found:#?}");
}

/// Whether a name is a vendor's.
fn is_vendors(name: &str) -> bool {
    let after = |prefix: &str| name.trim_start_matches('_').strip_prefix(prefix);
    let is_capital = |rest: &str| rest.starts_with(|first: char| first.is_ascii_uppercase());
    ["cu", "cuda", "hip"].iter().any(|prefix| after(prefix).is_some_and(is_capital))
        || ["CUDA_", "HIP_", "CU", "hiprtc", "rocprofiler_"].iter().any(|prefix| after(prefix).is_some())
}

/// Functions with the C ABI and structures with C layout in a file under a vendor's name. A structure also counts if
/// its description begins with the name. A vendor's function also counts if one of our functions spells out a C ABI
/// type and names the vendor's function.
#[derive(Default)]
struct Vendors(Vec<String>);

/// The parts of a function: whether it contains a C ABI type, and the vendors' functions that its texts name.
#[derive(Default)]
struct Spelled {
    has_type: bool,
    names: Vec<String>,
}

impl<'a> Visit<'a> for Spelled {
    fn visit_type_bare_fn(&mut self, item: &'a syn::TypeBareFn) {
        self.has_type |= item.abi.is_some();
        syn::visit::visit_type_bare_fn(self, item);
    }

    fn visit_lit(&mut self, literal: &'a syn::Lit) {
        let text = match literal {
            syn::Lit::Str(text) => text.value(),
            syn::Lit::ByteStr(text) => String::from_utf8_lossy(&text.value()).into_owned(),
            syn::Lit::CStr(text) => text.value().to_string_lossy().into_owned(),
            _ => return,
        };
        let name = text.trim_end_matches('\0');
        let is_name = name.chars().all(|one| one.is_ascii_alphanumeric() || one == '_');
        if is_name && name.starts_with(|first: char| first.is_ascii_lowercase()) && is_vendors(name) {
            self.names.push(name.to_owned());
        }
    }
}

impl<'a> Visit<'a> for Vendors {
    fn visit_item_fn(&mut self, item: &'a syn::ItemFn) {
        let name = item.sig.ident.to_string();
        if item.sig.abi.is_some() && is_vendors(&name) {
            self.0.push(name);
        }
        self.look_inside(&item.block);
        syn::visit::visit_item_fn(self, item);
    }

    fn visit_impl_item_fn(&mut self, item: &'a syn::ImplItemFn) {
        self.look_inside(&item.block);
        syn::visit::visit_impl_item_fn(self, item);
    }

    fn visit_item_struct(&mut self, item: &'a syn::ItemStruct) {
        let text = |attribute: &syn::Attribute| match &attribute.meta {
            syn::Meta::NameValue(syn::MetaNameValue { value: syn::Expr::Lit(literal), .. }) => match &literal.lit {
                syn::Lit::Str(text) if attribute.path().is_ident("doc") => Some(text.value()),
                _ => None,
            },
            _ => None,
        };
        let description = item.attrs.iter().find_map(text).unwrap_or_default();
        let described = description.trim().strip_prefix('`').and_then(|rest| rest.split('`').next());
        let is_laid_out = item.attrs.iter().any(|attribute| {
            attribute.path().is_ident("repr")
                && attribute.parse_args::<syn::Path>().is_ok_and(|layout| layout.is_ident("C"))
        });
        let name = item.ident.to_string();
        if is_laid_out && (is_vendors(&name) || described.is_some_and(is_vendors)) {
            self.0.push(name);
        }
    }
}

impl Vendors {
    fn look_inside(&mut self, block: &syn::Block) {
        let mut spelled = Spelled::default();
        spelled.visit_block(block);
        if spelled.has_type {
            self.0.append(&mut spelled.names);
        }
    }
}

#[test]
fn functions_and_structures_of_vendors_are_declared_in_one_crate() {
    let mut found = Vec::new();
    for name in crates().into_iter().chain(["tests/stand-in".to_owned()]).filter(|name| name != DECLARATIONS) {
        let mut all = Vec::new();
        files(&top().join(&name).join("src"), &mut all);
        assert!(!all.is_empty(), "{name}");
        for file in all {
            let mut vendors = Vendors::default();
            vendors.visit_file(&syn::parse_file(&std::fs::read_to_string(&file).unwrap()).unwrap());
            let file = file.strip_prefix(top()).unwrap().display().to_string();
            found.extend(vendors.0.into_iter().map(|name| format!("{file}: {name} belongs into {DECLARATIONS}/")));
        }
    }
    assert!(found.is_empty(), "{found:#?}");
}

#[test]
fn what_is_a_vendor_s_is_found() {
    let found = |text: &str| {
        let mut vendors = Vendors::default();
        vendors.visit_file(&syn::parse_file(text).unwrap());
        vendors.0
    };
    assert_eq!(found("extern \"C\" fn hipFree() {}\nextern \"C\" fn __cudaInitModule() {}").len(), 2);
    assert_eq!(found("/// `CUdevprop`, of old.\n#[repr(C)]\nstruct Old { a: i32 }"), ["Old"]);
    assert_eq!(found("#[repr(C)]\nstruct hipDeviceProp { a: i32 }"), ["hipDeviceProp"]);
    let spelled = "fn start() { type Init = unsafe extern \"C\" fn(u32) -> i32; get::<Init>(b\"cuInit\\0\"); }";
    assert_eq!(found(spelled), ["cuInit"]);
    let own =
        "extern \"C\" fn cut() {}\nfn hipFree() {}\n/// A line of `cudaMemcpy`.\n#[repr(C)]\nstruct Line { a: i32 }";
    assert!(found(own).is_empty());
}

/// The crate that links LLVM, and its programs.
const LLVM: &str = "mneme-compiler";
const BUILDERS: [&str; 5] = ["mneme-build-19", "mneme-build-20", "mneme-build-21", "mneme-build-22", "mneme-build-23"];

#[test]
fn the_builders_link_llvm_and_nothing_else_does() {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let words = ["metadata", "--format-version", "1", "--no-deps", "--offline"];
    let output = std::process::Command::new(cargo).args(words).current_dir(top()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let packages = metadata["packages"].as_array().unwrap();
    // Libraries that only tests link are not part of programs.
    let links = |package: &serde_json::Value, wanted: &[&str]| {
        let dependencies = package["dependencies"].as_array().unwrap();
        dependencies.iter().any(|it| it["kind"] != "dev" && wanted.contains(&it["name"].as_str().unwrap()))
    };
    let name = |package: &serde_json::Value| package["name"].as_str().unwrap().to_owned();
    let linking: Vec<String> =
        packages.iter().filter(|package| links(package, &["llvm-sys", "inkwell", LLVM])).map(name).collect();
    assert_eq!(linking, [LLVM]);
    let compiler = packages.iter().find(|package| name(package) == LLVM).unwrap();
    let of_kind = |kind: &str| {
        let targets = compiler["targets"].as_array().unwrap().iter();
        let mut names: Vec<&str> = targets
            .filter(|target| target["kind"].as_array().unwrap().iter().any(|it| it == kind))
            .map(|target| target["name"].as_str().unwrap())
            .collect();
        names.sort_unstable();
        names
    };
    assert_eq!(of_kind("bin"), BUILDERS);
    assert!(of_kind("cdylib").is_empty());
}
