//! The metrics of a scrape.

/// All samples of one scrape.
#[derive(Debug)]
pub struct Metrics {
    text: String,
    samples: Vec<Sample>,
}

#[derive(Debug)]
struct Sample {
    name: String,
    labels: Vec<(String, String)>,
    value: f64,
}

impl Metrics {
    /// Reads the text format of Prometheus.
    pub fn parse(text: String) -> Self {
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        let samples = lines.filter_map(sample).collect();
        Self { text, samples }
    }

    /// The document.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The sum of all samples with this name and these labels, 0 if there is none.
    pub fn sum(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        self.matching(name, labels).map(|sample| sample.value).sum()
    }

    /// The value of the first sample with this name and these labels.
    pub fn value(&self, name: &str, labels: &[(&str, &str)]) -> Option<f64> {
        self.matching(name, labels)
            .map(|sample| sample.value)
            .next()
    }

    /// The number of samples with this name and these labels.
    pub fn count(&self, name: &str, labels: &[(&str, &str)]) -> usize {
        self.matching(name, labels).count()
    }

    /// The name and the labels of each sample, in the order of the document.
    pub fn samples(&self) -> impl Iterator<Item = (&str, &[(String, String)])> {
        let samples = self.samples.iter();
        samples.map(|sample| (&*sample.name, &*sample.labels))
    }

    fn matching(&self, name: &str, labels: &[(&str, &str)]) -> impl Iterator<Item = &Sample> {
        self.samples.iter().filter(move |sample| {
            let has = |wanted: &(&str, &str)| {
                let mut own = sample.labels.iter();
                own.any(|(key, value)| (&**key, &**value) == *wanted)
            };
            sample.name == name && labels.iter().all(has)
        })
    }
}

fn sample(line: &str) -> Option<Sample> {
    let (series, value) = line.rsplit_once(' ')?;
    let (name, labels) = match series.split_once('{') {
        Some((name, labels)) => (name, labels.strip_suffix('}')?),
        None => (series, ""),
    };
    let mut found = Vec::new();
    let mut rest = labels;
    while let Some((key, after)) = rest.split_once("=\"") {
        let mut value = String::new();
        let mut chars = after.char_indices();
        let end = loop {
            match chars.next()? {
                (_, '\\') => value.push(chars.next()?.1),
                (at, '"') => break at,
                (_, c) => value.push(c),
            }
        };
        found.push((key.to_owned(), value));
        rest = after[end + 1..].trim_start_matches(',');
    }
    Some(Sample {
        name: name.to_owned(),
        labels: found,
        value: value.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_read_with_their_labels() {
        let text = "# TYPE a counter\na{x=\"1\",y=\"q\\\"{},\"} 2\na{x=\"2\"} 3.5\nb 7\n# EOF\n";
        let metrics = Metrics::parse(text.to_owned());
        assert_eq!(metrics.sum("a", &[]), 5.5);
        assert_eq!(metrics.value("a", &[("y", "q\"{},")]), Some(2.0));
        assert_eq!(metrics.value("b", &[]), Some(7.0));
        assert_eq!(metrics.value("c", &[]), None);
    }
}
