use similar::TextDiff;

/// The unified diff of a manifest's two texts; empty if they are equal.
pub fn unified_diff(name: &str, before: &str, after: &str) -> String {
    let diff = TextDiff::from_lines(before, after);
    let mut unified = diff.unified_diff();
    unified.header(&format!("a/{name}"), &format!("b/{name}"));
    unified.to_string()
}
