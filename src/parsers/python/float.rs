//! Floats as Python's `repr` writes them: the shortest digits that read back, in plain notation from 1e-4 to 1e16.

/// Writes a float the way `json.dumps` does.
pub(super) fn repr(value: f64) -> String {
    if value.is_nan() {
        return "NaN".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "Infinity" } else { "-Infinity" }.to_owned();
    }
    let text = format!("{value:e}");
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..16).contains(&exponent) {
        let plain = format!("{value}");
        return if plain.contains('.') { plain } else { plain + ".0" };
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.abs())
}

#[cfg(test)]
mod tests {
    use super::repr;

    #[test]
    fn writes_as_python_does() {
        for (value, text) in [
            (0.5, "0.5"),
            (-2.5, "-2.5"),
            (3.0, "3.0"),
            (-0.0, "-0.0"),
            (1e15, "1000000000000000.0"),
            (1e16, "1e+16"),
            (1.5e300, "1.5e+300"),
            (1e-4, "0.0001"),
            (1e-5, "1e-05"),
            (f64::INFINITY, "Infinity"),
        ] {
            assert_eq!(repr(value), text);
        }
    }
}
