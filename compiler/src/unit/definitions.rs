//! Hashes of a module's definitions, computed from its text.
//!
//! LLVM numbers attribute groups, metadata, unnamed types and unnamed globals (AMD's device libraries have such
//! functions) per module, so the text of a definition changes with its neighbours. The hash replaces each such number
//! by a hash of its content, and each type by a hash of its layout.

use std::cell::RefCell;
use std::collections::HashMap;

use mneme_model::hash::checksum;

/// The hash of each function, variable and alias definition, by name, or by its number in the text if it has no name.
pub fn hashes(text: &str) -> HashMap<String, u64> {
    let (entities, definitions) = split(text);
    let resolver = Resolver { entities, known: RefCell::default() };
    definitions.into_iter().map(|(name, definition)| (name, resolver.hash(definition, &mut Vec::new()).0)).collect()
}

/// The text of each definition, by name.
pub fn texts(text: &str) -> Vec<(String, &str)> {
    split(text).1
}

/// The contents behind numbers and names: "%struct.S", "#0", "!5", "@3".
type Entities<'t> = HashMap<&'t str, &'t str>;

fn split(text: &str) -> (Entities<'_>, Vec<(String, &str)>) {
    let mut entities = HashMap::new();
    let mut definitions = Vec::new();
    let mut at = 0;
    while at < text.len() {
        let rest = &text[at..];
        let line = rest.lines().next().unwrap_or("");
        let mut length = line.len();
        if line.starts_with("define ") {
            length = rest.find("\n}").map_or(rest.len(), |end| end + 2);
            if let Some(name) = line.find('@').map(|sign| token(&line[sign..])) {
                definitions.push((unquote(name), &rest[..length]));
                if is_number(name) {
                    entities.insert(name, &rest[..length]);
                }
            }
        } else if let Some((name, definition)) = line.split_once(" = ") {
            match name.as_bytes().first() {
                Some(b'@') => {
                    definitions.push((unquote(name), line));
                    if is_number(name) {
                        entities.insert(name, line);
                    }
                }
                Some(b'%' | b'!') => {
                    entities.insert(name, definition);
                }
                _ => {
                    if let Some(group) = name.strip_prefix("attributes ") {
                        entities.insert(group, definition);
                    }
                }
            }
        }
        at += length + 1;
    }
    (entities, definitions)
}

/// Whether a name is a number in this text.
fn is_number(name: &str) -> bool {
    name.strip_prefix('@').is_some_and(|name| name.bytes().all(|byte| byte.is_ascii_digit()))
}

struct Resolver<'t> {
    entities: Entities<'t>,
    known: RefCell<HashMap<&'t str, u64>>,
}

/// A hash, and the lowest position among the open entities to which it refers back (`usize::MAX` for none).
type Hashed = (u64, usize);

impl<'t> Resolver<'t> {
    /// The hash of `text` with every entity replaced by its hash. `open` are the entities being resolved, to detect
    /// cycles.
    fn hash(&self, text: &'t str, open: &mut Vec<&'t str>) -> Hashed {
        let mut normal = String::with_capacity(text.len());
        let mut lowest = usize::MAX;
        let mut rest = text;
        while let Some(start) = rest.find(['%', '#', '!', '"', '@']) {
            normal.push_str(&rest[..start]);
            rest = &rest[start..];
            let name = token(rest);
            rest = &rest[name.len()..];
            match self.entity(name, open) {
                Some((hash, back)) => {
                    normal.push_str(&format!("{{{hash:x}}}"));
                    lowest = lowest.min(back);
                }
                None => normal.push_str(name),
            }
        }
        normal.push_str(rest);
        (checksum(normal.as_bytes()), lowest)
    }

    fn entity(&self, name: &'t str, open: &mut Vec<&'t str>) -> Option<Hashed> {
        let (&key, definition) = self.entities.get_key_value(name)?;
        if let Some(hash) = self.known.borrow().get(key) {
            return Some((*hash, usize::MAX));
        }
        if let Some(place) = open.iter().position(|other| *other == key) {
            return Some(((open.len() - place) as u64, place));
        }
        let place = open.len();
        open.push(key);
        let (hash, lowest) = self.hash(definition, open);
        open.pop();
        if lowest < place {
            // Part of a cycle entered elsewhere. Its hash depends on the entry, so it is not cached.
            return Some((hash, lowest));
        }
        self.known.borrow_mut().insert(key, hash);
        Some((hash, usize::MAX))
    }
}

/// The name or string at the start of `text`, sign included.
fn token(text: &str) -> &str {
    let sign = usize::from(!text.starts_with('"'));
    if text[sign..].starts_with('"') {
        // LLVM escapes quotes as \22, so the next quote ends the string.
        return text[sign + 1..].find('"').map_or(text, |end| &text[..sign + end + 2]);
    }
    let end = text[sign..]
        .find(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '$' | '-')))
        .unwrap_or(text.len() - sign);
    &text[..sign + end]
}

/// The symbol name of an `@name` token; quoted names have their `\xx` escapes undone.
fn unquote(name: &str) -> String {
    let name = name.strip_prefix('@').unwrap_or(name);
    let Some(quoted) = name.strip_prefix('"').and_then(|name| name.strip_suffix('"')) else { return name.to_owned() };
    let mut bytes = Vec::new();
    let mut rest = quoted.as_bytes();
    while let Some((first, tail)) = rest.split_first() {
        let escaped = (*first == b'\\')
            .then(|| tail.get(..2))
            .flatten()
            .and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok());
        match escaped {
            Some(byte) => {
                bytes.push(byte);
                rest = &tail[2..];
            }
            None => {
                bytes.push(*first);
                rest = tail;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::hashes;

    const FIRST: &str = r#"%struct.S = type { i32, i64 }
@"odd\20name" = global i32 7, align 4
define void @f(ptr %p) #0 {
  %q = getelementptr %struct.S, ptr %p, i32 1
  store i32 1, ptr %q, !tbaa !1
  ret void
}
attributes #0 = { convergent "target-cpu"="sm_90" }
!1 = !{!2, i64 0}
!2 = distinct !{!2, !"int"}
"#;

    #[test]
    fn numbering_and_neighbours_do_not_matter() {
        let second = FIRST
            .replace("#0", "#4")
            .replace("!2", "!9")
            .replace("!1", "!3")
            .replace("define void @f", "define void @g() #7 {\n  ret void\n}\ndefine void @f");
        let (first, second) = (hashes(FIRST), hashes(&second));
        assert_eq!(first["f"], second["f"]);
        assert_eq!(first["odd name"], second["odd name"]);
        assert!(second.contains_key("g"));
    }

    #[test]
    fn unnamed_globals_are_what_they_hold() {
        let text = |first: u32, body: &str| {
            format!(
                "@{first} = internal global i32 {body}\ndefine internal void @{}() {{\n  call void @{0}()\n  %1 = load i32, ptr @{first}\n  ret void\n}}\n\
                 define void @k() {{\n  call void @{0}()\n  ret void\n}}\n",
                first + 1
            )
        };
        let plain = hashes(&text(0, "5"));
        assert_eq!(plain["k"], hashes(&format!("@0 = internal global i32 1\n{}", text(1, "5")))["k"]);
        assert_ne!(plain["k"], hashes(&text(0, "6"))["k"]);
        assert!(plain.contains_key("1"));
    }

    #[test]
    fn types_that_share_parts_take_linear_time() {
        let mut text = String::from("%t0 = type { i32 }\n");
        for depth in 1..60 {
            let part = depth - 1;
            text += &format!("%t{depth} = type {{ %t{part}, %t{part} }}\n");
        }
        text += "@g = global %t59 zeroinitializer\n";
        assert_ne!(hashes(&text)["g"], hashes(&text.replace("{ i32 }", "{ i64 }"))["g"]);
    }

    #[test]
    fn what_the_numbers_stand_for_does_matter() {
        for (from, to) in [
            ("i32, i64 }", "i64, i64 }"),
            ("sm_90", "sm_80"),
            ("\"int\"", "\"long\""),
            ("i32 1, ptr %q", "i32 2, ptr %q"),
        ] {
            assert_ne!(hashes(FIRST)["f"], hashes(&FIRST.replace(from, to))["f"], "{from} → {to}");
        }
        assert_ne!(hashes(FIRST)["odd name"], hashes(&FIRST.replace("i32 7", "i32 8"))["odd name"]);
    }
}
