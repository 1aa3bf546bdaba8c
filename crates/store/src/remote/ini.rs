//! The format of the AWS credential and config files: sections of `name = value`.

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::path::Path;

/// Largest configuration file read, in bytes.
const MAX_FILE: u64 = 1 << 20;

/// Reads a small file.
pub(super) fn read_limited(path: impl AsRef<Path>) -> io::Result<Vec<u8>> {
    let mut content = Vec::new();
    std::fs::File::open(path)?.take(MAX_FILE + 1).read_to_end(&mut content)?;
    if content.len() as u64 > MAX_FILE {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "it is larger than 1 MiB"));
    }
    Ok(content)
}

/// Sections by name, white space in names reduced to one blank. Nested values (indented lines) appear as `outer.inner`. A line that
/// is not understood is skipped: other programs own these files.
pub(super) fn parse(text: &str) -> BTreeMap<String, BTreeMap<String, String>> {
    let mut sections: BTreeMap<String, BTreeMap<String, String>> = BTreeMap::new();
    let mut section = None;
    let mut outer = String::new();
    for line in text.lines() {
        let trimmed = line.trim();
        if trimmed.is_empty() || trimmed.starts_with(['#', ';']) {
            continue;
        }
        if let Some(rest) = trimmed.strip_prefix('[') {
            section =
                rest.split_once(']').map(|(name, _)| name.split_whitespace().collect::<Vec<_>>().join(" "));
            outer.clear();
            continue;
        }
        let (Some(section), Some((name, value))) = (&section, trimmed.split_once('=')) else { continue };
        let name = name.trim().to_ascii_lowercase();
        // A comment needs white space before it: keys may contain '#'.
        let end = [" #", " ;", "\t#", "\t;"]
            .iter()
            .filter_map(|mark| value.find(mark))
            .min()
            .unwrap_or(value.len());
        let value = value.get(..end).unwrap_or(value).trim().to_owned();
        let nested = line.starts_with([' ', '\t']) && !outer.is_empty();
        let name = if nested { format!("{outer}.{name}") } else { name };
        if !nested {
            outer = if value.is_empty() { name.clone() } else { String::new() };
        }
        sections.entry(section.clone()).or_default().insert(name, value);
    }
    sections
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn files_as_people_write_them() {
        let text = "# comment\nlost = 1\n[default]\naws_access_key_id=A\naws_secret_access_key = a/b+c=#d # note\n\n\
                    [profile  two]\nregion= eu-west-1\ns3 =\n  addressing_style = path\n  endpoint_url = http://x\noutput = json\nbroken\n";
        let sections = parse(text);
        assert_eq!(sections["default"]["aws_secret_access_key"], "a/b+c=#d");
        assert_eq!(sections["profile two"]["region"], "eu-west-1");
        assert_eq!(sections["profile two"]["s3.endpoint_url"], "http://x");
        assert_eq!(sections["profile two"]["output"], "json");
        assert_eq!(sections.len(), 2);
    }

    proptest! {
        #[test]
        fn any_text_is_survived(text in "[\\[\\]a =#;.\\n\\té]{0,60}") {
            parse(&text);
        }
    }
}
