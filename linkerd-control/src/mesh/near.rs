//! Suggestions for misspelt names.

/// The nearest known name to a misspelt one, if one is near.
pub(super) fn near<'n>(name: &str, known: impl IntoIterator<Item = &'n str>) -> Option<&'n str> {
    let most = (name.chars().count() / 3).clamp(1, 3);
    let (distance, nearest) = known
        .into_iter()
        .map(|known| (distance(name, known), known))
        .min()?;
    (distance <= most).then_some(nearest)
}

/// The edit distance: insertions, removals, replacements and swaps of neighbours.
pub(crate) fn distance(name: &str, known: &str) -> usize {
    let shorten = |text: &str| text.chars().take(MAX_COMPARED).collect::<String>();
    strsim::osa_distance(&shorten(name), &shorten(known))
}

/// The compared length: names are shorter than this, and the bound limits the work.
const MAX_COMPARED: usize = 128;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_is_near_and_another_word_is_not() {
        for (name, expected) in [
            ("endpoint", Some("endpoints")),
            ("prot", Some("port")),
            ("nmae", Some("name")),
            ("p", None),
            ("weather", None),
        ] {
            assert_eq!(
                near(name, ["name", "port", "endpoints"]),
                expected,
                "{name}"
            );
        }
    }
}
