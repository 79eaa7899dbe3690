//! Rewrites a template's source where Jinja2 under transformers means something that this engine does not.
//!
//! `{% generation %}` blocks become plain scopes. An attribute that Python finds as a method of `dict`, used without a
//! call (`schema.items`), becomes a lookup of that method, which no key of the data can answer.

use minijinja::machinery::ast::{Expr, Stmt};
use minijinja::machinery::parse;
use minijinja::syntax::SyntaxConfig;

use super::value::METHOD_MARK;
use super::walk::{self, Node};

/// The public methods of `dict`.
const DICT_METHODS: [&str; 11] =
    ["clear", "copy", "fromkeys", "get", "items", "keys", "pop", "popitem", "setdefault", "update", "values"];

/// `{% generation %}` and `{% endgeneration %}`, with any whitespace control, as `{% with %}` and `{% endwith %}`.
pub(super) fn without_generation_tags(source: &str) -> String {
    let mut out = String::with_capacity(source.len());
    let mut rest = source;
    while let Some((before, after)) = rest.split_once("{%") {
        out.push_str(before);
        out.push_str("{%");
        rest = after;
        let Some((tag, _)) = after.split_once("%}") else { continue };
        let name = tag.trim_start_matches(['-', '+']).trim_end_matches(['-', '+']).trim();
        let replacement = match name {
            "generation" => "with",
            "endgeneration" => "endwith",
            _ => continue,
        };
        out.push_str(&tag.replacen(name, replacement, 1));
        rest = after.get(tag.len()..).unwrap_or_default();
    }
    out.push_str(rest);
    out
}

/// Replaces `x.items` (not called) by a lookup that finds the method.
pub(super) fn with_bound_methods(source: &str, syntax: &SyntaxConfig) -> Result<String, minijinja::Error> {
    let tree = parse(source, "chat template", syntax.clone())?;
    let mut ends = method_attributes(&tree);
    ends.sort_unstable_by_key(|(end, _)| std::cmp::Reverse(*end));
    let mut out = source.to_owned();
    for (end, name) in ends {
        let attribute = format!(".{name}");
        let start = end.saturating_sub(attribute.len());
        if out.get(start..end) == Some(attribute.as_str()) {
            out.replace_range(start..end, &format!("['{METHOD_MARK}{name}']"));
        }
    }
    Ok(out)
}

/// Byte offsets at which attributes end that name a method of `dict` and are not called.
fn method_attributes<'s>(tree: &Stmt<'s>) -> Vec<(usize, &'s str)> {
    let mut called: Vec<*const Expr<'_>> = Vec::new();
    let mut found: Vec<(*const Expr<'_>, usize, &'s str)> = Vec::new();
    walk::stmt(tree, &mut |node| match node {
        Node::Expr(Expr::Call(call)) => called.push(&raw const call.expr),
        Node::Expr(expr @ Expr::GetAttr(attr)) if DICT_METHODS.contains(&attr.name) => {
            found.push((std::ptr::from_ref(expr), expr.span().end_offset as usize, attr.name));
        }
        _ => {}
    });
    found.retain(|(expr, _, _)| !called.contains(expr));
    found.into_iter().map(|(_, end, name)| (end, name)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generation_tags_become_scopes() {
        assert_eq!(
            without_generation_tags("a{%- generation -%}b{% endgeneration %}c{% if x %}{%"),
            "a{%- with -%}b{% endwith %}c{% if x %}{%"
        );
    }

    #[test]
    fn methods_are_bound_unless_called() {
        let syntax = SyntaxConfig::default();
        let rewritten = with_bound_methods("{{ a.items }}{{ a.items() }}{% if a.b.keys is x %}{% endif %}", &syntax);
        assert_eq!(rewritten.unwrap(), "{{ a['\u{1}items'] }}{{ a.items() }}{% if a.b['\u{1}keys'] is x %}{% endif %}");
    }
}
