//! Names that were probably meant.

/// The known name that is nearest to a misspelt one, if one is near.
pub(super) fn near<'n>(name: &str, known: impl IntoIterator<Item = &'n str>) -> Option<&'n str> {
    let most = (name.chars().count() / 3).clamp(1, 3);
    let (distance, nearest) = known
        .into_iter()
        .map(|known| (distance(name, known), known))
        .min()?;
    (distance <= most).then_some(nearest)
}

/// How many characters must be inserted, removed, replaced or swapped with their neighbour.
pub(crate) fn distance(name: &str, known: &str) -> usize {
    let shorten = |text: &str| text.chars().take(MAX_COMPARED).collect::<String>();
    strsim::osa_distance(&shorten(name), &shorten(known))
}

/// Names are shorter than this; the work for a longer one has a bound.
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
