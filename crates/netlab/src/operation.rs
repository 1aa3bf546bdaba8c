//! What an HTTP request is to S3.

/// The name S3 gives to the operation, from the request's method, its target and whether it names a source to copy from;
/// paths are `/bucket/key`. `Other` for what no file system needs.
pub fn operation(method: &str, target: &str, copies: bool) -> &'static str {
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let key = path.trim_start_matches('/').split_once('/').is_some_and(|(_, key)| !key.is_empty());
    let bucket = path.len() > 1;
    let has = |name: &str| query.split('&').any(|part| part.split('=').next() == Some(name));
    match (method, key) {
        ("GET", true) if has("uploadId") => "ListParts",
        ("GET", true) if ["acl", "tagging", "attributes", "retention"].into_iter().any(has) => "Other",
        ("GET", true) => "GetObject",
        ("GET", false) if !bucket => "ListBuckets",
        ("GET", false) if has("list-type") => "ListObjectsV2",
        ("GET", false) if has("uploads") => "ListMultipartUploads",
        ("GET", false)
            if query.is_empty() || ["prefix", "delimiter", "marker", "max-keys"].into_iter().any(has) =>
        {
            "ListObjects"
        }
        ("HEAD", true) => "HeadObject",
        ("HEAD", false) => "HeadBucket",
        ("PUT", true) if has("partNumber") && copies => "UploadPartCopy",
        ("PUT", true) if has("partNumber") => "UploadPart",
        ("PUT", true) if copies => "CopyObject",
        ("PUT", true) if has("acl") || has("tagging") => "Other",
        ("PUT", true) => "PutObject",
        ("PUT", false) if query.is_empty() => "CreateBucket",
        ("POST", true) if has("uploads") => "CreateMultipartUpload",
        ("POST", true) if has("uploadId") => "CompleteMultipartUpload",
        ("POST", false) if has("delete") => "DeleteObjects",
        ("DELETE", true) if has("uploadId") => "AbortMultipartUpload",
        ("DELETE", true) => "DeleteObject",
        ("DELETE", false) if bucket && query.is_empty() => "DeleteBucket",
        _ => "Other",
    }
}

/// The method as it is counted: one that HTTP does not know, whatever its text, is `OTHER`.
pub(crate) fn method(text: &str) -> &'static str {
    ["GET", "HEAD", "PUT", "POST", "DELETE", "OPTIONS", "PATCH"]
        .into_iter()
        .find(|known| *known == text)
        .unwrap_or("OTHER")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_what_clients_mean_by_them() {
        for (method, target, wanted) in [
            ("GET", "/b/a/key", "GetObject"),
            ("GET", "/b/key?x-id=GetObject", "GetObject"),
            ("GET", "/b?list-type=2&prefix=a%2F", "ListObjectsV2"),
            ("GET", "/b/?list-type=2", "ListObjectsV2"),
            ("GET", "/b/?prefix=x&delimiter=/", "ListObjects"),
            ("GET", "/b/?uploads", "ListMultipartUploads"),
            ("GET", "/b?location", "Other"),
            ("GET", "/", "ListBuckets"),
            ("HEAD", "/b/key", "HeadObject"),
            ("HEAD", "/b", "HeadBucket"),
            ("PUT", "/b/key", "PutObject"),
            ("PUT", "/b/key?partNumber=1&uploadId=x", "UploadPart"),
            ("POST", "/b/key?uploads", "CreateMultipartUpload"),
            ("POST", "/b/key?uploads=", "CreateMultipartUpload"),
            ("POST", "/b/key?uploadId=x", "CompleteMultipartUpload"),
            ("POST", "/b/?delete", "DeleteObjects"),
            ("DELETE", "/b/key?uploadId=x", "AbortMultipartUpload"),
            ("DELETE", "/b/key", "DeleteObject"),
            ("BREW", "/", "Other"),
            ("GET", "", "ListBuckets"),
        ] {
            assert_eq!(operation(method, target, false), wanted, "{method} {target}");
        }
        assert_eq!(operation("PUT", "/b/key", true), "CopyObject");
        assert_eq!(operation("PUT", "/b/key?partNumber=1&uploadId=x", true), "UploadPartCopy");
        assert_eq!(super::method("BREW"), "OTHER");
    }
}
