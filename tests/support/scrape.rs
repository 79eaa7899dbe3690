//! What a scrape says, read as Prometheus reads it.

use std::collections::{BTreeMap, BTreeSet};

use super::couplet::Couplet;
use super::http;

/// A metric of a scrape.
#[derive(Debug, Default)]
pub struct Family {
    pub kind: String,
    pub help: String,
    /// The names of all labels but `le`.
    pub labels: BTreeSet<String>,
}

/// The text of `/metrics`.
pub async fn scrape(couplet: &Couplet) -> String {
    http::get(&format!("{}/metrics", couplet.url)).await.text
}

/// The series with their values: `name{label="value"} 1` each.
pub fn series(text: &str) -> impl Iterator<Item = (&str, f64)> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines.map(|line| line.rsplit_once(' ').map(|(name, value)| (name, value.parse().unwrap())).unwrap())
}

/// The sum of all series whose name begins with `start`, which ends with the name or goes on into the labels.
pub fn sum(text: &str, name: &str, label: &str) -> f64 {
    let is_meant = |(series, _): &(&str, f64)| {
        series.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('{')) && series.contains(label)
    };
    series(text).filter(is_meant).map(|(_, value)| value).sum()
}

/// The metrics by name.
pub fn families(text: &str) -> BTreeMap<String, Family> {
    let mut families: BTreeMap<String, Family> = BTreeMap::new();
    for line in text.lines() {
        if let Some((name, help)) = line.strip_prefix("# HELP ").and_then(|rest| rest.split_once(' ')) {
            families.entry(name.to_owned()).or_default().help = help.to_owned();
        } else if let Some((name, kind)) = line.strip_prefix("# TYPE ").and_then(|rest| rest.split_once(' ')) {
            families.entry(name.to_owned()).or_default().kind = kind.to_owned();
        }
    }
    for (series, _) in series(text) {
        let (name, labels) = series.split_once('{').unwrap_or((series, ""));
        let known = ["", "_bucket", "_sum", "_count"].iter().find_map(|ending| {
            let name = name.strip_suffix(ending)?;
            families.contains_key(name).then_some(name)
        });
        let family = families.get_mut(known.unwrap()).unwrap();
        let names = labels.split("\",").filter_map(|label| label.split_once("=\"")).map(|(name, _)| name);
        family.labels.extend(names.filter(|name| *name != "le").map(str::to_owned));
    }
    families
}

/// The upper ends of a histogram's buckets, but for the infinite one.
pub fn buckets(text: &str, name: &str) -> BTreeSet<String> {
    let of =
        series(text).filter_map(|(series, _)| series.strip_prefix(name)?.strip_prefix("_bucket{")?.split_once("le=\""));
    of.map(|(_, rest)| rest.split('"').next().unwrap().to_owned()).filter(|end| end != "+Inf").collect()
}
