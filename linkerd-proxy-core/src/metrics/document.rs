//! The document of a scrape, rendered piece by piece.

use super::{Exposition, ExpositionFormat, Registry, RegistryStyle};
use std::{fmt, time::Duration};
use tokio::time::Instant;

/// A document being written. With 10,000 endpoints it has many megabytes, which are never in memory at once.
///
/// Counts made while the document is written may be in it or not.
pub struct Document {
    registry: Registry,
    format: ExpositionFormat,
    /// Families in the order of the document.
    order: std::vec::IntoIter<usize>,
    part: Part,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    NextFamily,
    /// Series of a family, beginning with the one at `from`.
    Family {
        family: usize,
        from: usize,
    },
    /// The collectors' text and the end.
    Tail,
    End,
}

impl Registry {
    /// A document of all families. Series without an owner for `retain` are dropped first.
    pub fn document(&self, format: ExpositionFormat, retain: Duration, now: Instant) -> Document {
        self.begin_document(retain, now);
        Document::new(self.clone(), format)
    }

    /// The whole document at once, as Prometheus text.
    pub fn render(&self, retain: Duration, now: Instant) -> String {
        let text = self.render_as(ExpositionFormat::Text, retain, now);
        String::from_utf8(text).expect("what is written as text is text")
    }

    /// The whole document at once.
    pub fn render_as(&self, format: ExpositionFormat, retain: Duration, now: Instant) -> Vec<u8> {
        let mut out = Vec::new();
        let mut document = self.document(format, retain, now);
        while document.write(&mut out) {}
        out
    }
}

impl Document {
    fn new(registry: Registry, format: ExpositionFormat) -> Self {
        let mut order = Vec::new();
        for style in [RegistryStyle::Legacy, RegistryStyle::OpenMetrics] {
            let families = registry.families();
            let of_style = families.iter().enumerate();
            let of_style = of_style.filter(|(_, entry)| entry.style == style);
            order.extend(of_style.map(|(index, _)| index));
        }
        Self {
            registry,
            format,
            order: order.into_iter(),
            part: Part::NextFamily,
        }
    }

    /// Appends the next piece, of about 64 KB. `true` if there is another.
    pub fn write(&mut self, out: &mut Vec<u8>) -> bool {
        let until = out.len() + PIECE;
        out.reserve(PIECE + PIECE / 4);
        let mut out = Exposition::new(out, self.format);
        while out.len() < until && self.part != Part::End {
            self.part = match self.part {
                Part::NextFamily => match self.order.next() {
                    Some(family) => Part::Family { family, from: 0 },
                    None => Part::Tail,
                },
                Part::Family { family, from } => {
                    let families = self.registry.families();
                    if from == 0 || out.lacks_head() {
                        families[family].write_head(&mut out);
                    }
                    match families[family].write(from, until, &mut out) {
                        Some(from) => Part::Family { family, from },
                        None => Part::NextFamily,
                    }
                }
                Part::Tail => {
                    self.registry.write_tail(&mut out);
                    Part::End
                }
                Part::End => Part::End,
            };
        }
        out.close();
        self.part != Part::End
    }
}

impl Drop for Document {
    fn drop(&mut self) {
        self.registry.end_document();
    }
}

impl fmt::Debug for Document {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Document")
            .field("part", &self.part)
            .finish_non_exhaustive()
    }
}

/// Bytes of a piece. A family is locked while a piece of it is written, some twenty microseconds, which bounds the wait of a
/// thread that asks for a handle.
const PIECE: usize = 64 * 1024;
