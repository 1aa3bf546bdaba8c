//! Volume URLs as people write them.

use std::path::Path;

/// One spelling for each place: local paths become absolute, without `file://`, `.`, and `..`; trailing slashes go.
/// Not checked here: whether the scheme is known.
pub fn normalise(url: &str) -> String {
    let text = url.strip_prefix("file://").unwrap_or(url);
    if let Some((scheme, rest)) = text.split_once("://") {
        return format!("{}://{}", scheme.to_ascii_lowercase(), rest.trim_end_matches('/'));
    }
    let absolute = std::path::absolute(text).unwrap_or_else(|_| text.into());
    // The directory may not exist yet; where it does, symbolic links are resolved so that two spellings of it agree.
    let resolved = absolute.canonicalize().unwrap_or_else(|_| lexical(&absolute));
    resolved.to_string_lossy().into_owned()
}

/// Removes `..` by the letter.
fn lexical(path: &Path) -> std::path::PathBuf {
    let mut out = std::path::PathBuf::new();
    for part in path.components() {
        match part {
            std::path::Component::ParentDir => {
                out.pop();
            }
            other => out.push(other),
        }
    }
    out
}

/// The last part of a URL, as a default name for a volume: letters, digits, dots, dashes and underscores.
pub fn default_name(url: &str) -> String {
    let normal = normalise(url);
    let last = normal.rsplit('/').find(|p| !p.is_empty()).unwrap_or("volume");
    let name: String = last
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_') { c } else { '-' })
        .take(64)
        .collect();
    if name.trim_matches(['.', '-']).is_empty() { "volume".to_owned() } else { name }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_spelling_for_each_place() {
        assert_eq!(normalise("S3://Bucket/p/"), "s3://Bucket/p");
        assert_eq!(normalise("file:///no/such/../dir/"), "/no/dir");
        assert_eq!(normalise("/no/such//dir/."), "/no/such/dir");
        let here = std::env::current_dir().unwrap().canonicalize().unwrap();
        assert_eq!(normalise("./no-such"), here.join("no-such").to_string_lossy());
    }

    #[test]
    fn names_are_safe_in_file_names() {
        assert_eq!(default_name("s3://bucket/some prefix/"), "some-prefix");
        assert_eq!(default_name("s3://bucket"), "bucket");
        assert_eq!(default_name("/srv/vol"), "vol");
        assert_eq!(default_name("/"), "volume");
    }
}
