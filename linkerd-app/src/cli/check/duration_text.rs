//! Ages and times left, for a person.

use std::time::Duration;

/// A duration in the largest unit of which there are at least two: `90 s`, `26 h`, `400 d`.
pub(super) fn duration_text(duration: Duration) -> String {
    let seconds = duration.as_secs();
    let units = [("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1)];
    let unit = units.iter().find(|(_, length)| seconds >= 2 * length);
    match unit {
        Some((name, length)) => format!("{} {name}", seconds / length),
        None => format!("{:.1} s", duration.as_secs_f64()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_unit_follows_the_length() {
        let text = |seconds| duration_text(Duration::from_secs_f64(seconds));
        let texts = [0.05, 1.5, 90.0, 150.0, 93_600.0, 172_800.0].map(text);
        assert_eq!(texts, ["0.1 s", "1.5 s", "90 s", "2 min", "26 h", "2 d"]);
    }
}
