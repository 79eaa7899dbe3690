//! `--api-key`: vLLM's rule for who may call what.

use http::Method;
use http::header::AUTHORIZATION;

use super::router::Request;

/// Routes that need a key; health, metrics and the like do not. vLLM has no `/debug`.
const GUARDED: [&str; 4] = ["/v1", "/v2", "/inference", "/debug"];

/// True where no key is configured, the route needs none, or the request carries one of `keys` as its bearer token.
pub(super) fn allows(keys: &[String], request: &Request) -> bool {
    if keys.is_empty() || request.method() == Method::OPTIONS {
        return true;
    }
    if !GUARDED.iter().any(|prefix| request.uri().path().starts_with(prefix)) {
        return true;
    }
    let Some(header) = request.headers().get(AUTHORIZATION).and_then(|value| value.to_str().ok()) else { return false };
    let Some((scheme, token)) = header.split_once(' ') else { return false };
    // Every key is compared in full, so that the time tells nothing about them.
    let known = keys.iter().fold(false, |known, key| known | same(key.as_bytes(), token.as_bytes()));
    scheme.eq_ignore_ascii_case("bearer") && known
}

/// Equality in time that depends on the lengths alone.
fn same(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && a.iter().zip(b).fold(0, |difference, (a, b)| difference | (a ^ b)) == 0
}
