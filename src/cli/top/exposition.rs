//! Reads Prometheus' text format: names, labels, values. Comments and times are passed over.

use std::collections::{BTreeMap, HashMap};

/// The labels of a series.
pub(super) type Labels = BTreeMap<String, String>;

/// All series of one scrape, by their names.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Scrape(HashMap<String, BTreeMap<Labels, f64>>);

/// A line that is none of the format.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line} of its metrics is none: {text}")]
pub(super) struct Malformed {
    line: usize,
    text: String,
}

/// Most characters of a wrong line that are told.
const TOLD: usize = 60;

impl Scrape {
    /// Reads a whole scrape.
    pub(super) fn parse(text: &str) -> Result<Self, Malformed> {
        let mut scrape = Self::default();
        for (at, line) in text.lines().map(str::trim).enumerate() {
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let malformed =
                || Malformed { line: at + 1, text: line.chars().filter(|c| !c.is_control()).take(TOLD).collect() };
            let (name, labels, value) = sample(line).ok_or_else(malformed)?;
            scrape.0.entry(name.to_owned()).or_default().insert(labels, value);
        }
        Ok(scrape)
    }

    /// The series of a name.
    pub(super) fn series(&self, name: &str) -> impl Iterator<Item = (&Labels, f64)> {
        self.0.get(name).into_iter().flatten().map(|(labels, value)| (labels, *value))
    }

    /// The value of one series.
    pub(super) fn value(&self, name: &str, labels: &Labels) -> Option<f64> {
        self.0.get(name)?.get(labels).copied()
    }
}

/// `name{label="value",…} value [time]`
fn sample(line: &str) -> Option<(&str, Labels, f64)> {
    let (name, rest) = line.split_at(line.find(|c: char| !is_name(c)).unwrap_or(line.len()));
    if name.is_empty() || name.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    let (labels, rest) = match rest.strip_prefix('{') {
        Some(rest) => labels(rest)?,
        None => (Labels::new(), rest),
    };
    let mut words = rest.split_whitespace();
    let value = words.next()?.parse().ok()?;
    let is_end = words.next().is_none_or(|time| time.parse::<i64>().is_ok()) && words.next().is_none();
    is_end.then_some((name, labels, value))
}

fn is_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || c == ':'
}

/// The labels, and what stands behind their brace.
fn labels(mut rest: &str) -> Option<(Labels, &str)> {
    let mut labels = Labels::new();
    loop {
        rest = rest.trim_start();
        if let Some(behind) = rest.strip_prefix('}') {
            return Some((labels, behind));
        }
        let (name, behind) = rest.split_once('=')?;
        let (value, behind) = quoted(behind.trim_start().strip_prefix('"')?)?;
        labels.insert(name.trim().to_owned(), value);
        rest = behind.trim_start();
        rest = match rest.strip_prefix(',') {
            Some(behind) => behind,
            None => rest.starts_with('}').then_some(rest)?,
        };
    }
}

/// A value up to its quote, and what stands behind that.
fn quoted(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut chars = text.chars();
    loop {
        match chars.next()? {
            '"' => return Some((value, chars.as_str())),
            '\\' => match chars.next()? {
                'n' => value.push('\n'),
                other => value.push(other),
            },
            other => value.push(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(pairs: &[(&str, &str)]) -> Labels {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    /// The example of Prometheus' own description of the format, shortened.
    #[test]
    fn names_labels_and_values_are_read() {
        let scrape = Scrape::parse(
            "# HELP http_requests_total The total number of HTTP requests.\n# TYPE http_requests_total counter\n\
             http_requests_total{method=\"post\",code=\"200\"} 1027 1395066363000\n\
             http_requests_total{method=\"post\",code=\"400\",}    3 1395066363000\n\n\
             msdos_file_access_time_seconds{path=\"C:\\\\DIR\\\\FILE.TXT\",error=\"Cannot find file:\\n\\\"FILE.TXT\\\"\"} 1.458255915e9\n\
             metric_without_timestamp_and_labels 12.47\n\
             something_weird{problem=\"division by zero\"} +Inf -3982045\n\
             rpc:duration_bucket{le=\"0.05\"} 24054\n",
        )
        .unwrap();
        let value = |name, pairs: &[(&str, &str)]| scrape.value(name, &labels(pairs));
        assert_eq!(value("http_requests_total", &[("code", "200"), ("method", "post")]), Some(1027.0));
        assert_eq!(value("http_requests_total", &[("code", "400"), ("method", "post")]), Some(3.0));
        let path = [("path", "C:\\DIR\\FILE.TXT"), ("error", "Cannot find file:\n\"FILE.TXT\"")];
        assert_eq!(value("msdos_file_access_time_seconds", &path), Some(1.458255915e9));
        assert_eq!(value("metric_without_timestamp_and_labels", &[]), Some(12.47));
        assert_eq!(value("something_weird", &[("problem", "division by zero")]), Some(f64::INFINITY));
        assert_eq!(value("rpc:duration_bucket", &[("le", "0.05")]), Some(24054.0));
        assert_eq!(scrape.series("http_requests_total").map(|(_, value)| value).sum::<f64>(), 1030.0);
        assert_eq!(scrape.series("none").count(), 0);
    }

    #[test]
    fn a_line_that_is_none_is_told() {
        for line in
            ["<html>", "a", "a{b} 1", "a{b=\"c} 1", "a{b=\"c\" d=\"e\"} 1", "a one", "a 1 now", "a 1 2 3", "1a 1"]
        {
            let error = Scrape::parse(&format!("fine 1\n{line}\n")).unwrap_err();
            assert_eq!((error.line, error.text.as_str()), (2, line));
        }
    }
}
