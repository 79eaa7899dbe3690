//! Rewrites a template's source where Jinja2 under transformers means something that this engine does not.
//!
//! `{% generation %}` blocks become plain scopes. An attribute that Python finds as a method of `dict`, used without a
//! call (`schema.items`), becomes a lookup of that method, which no key of the data can answer. Loops over none fail.

use minijinja::machinery::ast::{Expr, Stmt};
use minijinja::machinery::parse;
use minijinja::syntax::SyntaxConfig;

use super::foreign;
use super::value::METHOD_MARK;
use super::walk::{self, Node};

/// The filter that lets pass what Python can loop over.
pub(super) const ITERATED: &str = "_iterated";

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

/// Rewrites what the engine understands otherwise than Python; in a `foreign` template also what it does not bound.
pub(super) fn as_python(source: &str, syntax: &SyntaxConfig, foreign: bool) -> Result<String, minijinja::Error> {
    let tree = parse(source, "chat template", syntax.clone())?;
    let mut edits = method_edits(&tree, source);
    edits.extend(loop_edits(&tree));
    if foreign {
        edits.extend(foreign::edits(&tree, source)?);
    }
    // From the end to the start; at one place the outer expression's edit first, so that the inner one's stands before it.
    edits.sort_by_key(|(range, _)| std::cmp::Reverse(range.start));
    let mut out = source.to_owned();
    for (range, text) in edits {
        if out.is_char_boundary(range.start) && out.is_char_boundary(range.end) {
            out.replace_range(range, &text);
        }
    }
    Ok(out)
}

/// What to put in place of which bytes.
pub(super) type Edit = (std::ops::Range<usize>, String);

/// `x.items` (not called) becomes a lookup that finds the method.
fn method_edits(tree: &Stmt<'_>, source: &str) -> Vec<Edit> {
    let mut called: Vec<*const Expr<'_>> = Vec::new();
    let mut found: Vec<(*const Expr<'_>, Edit)> = Vec::new();
    walk::stmt(tree, &mut |node| match node {
        Node::Expr(Expr::Call(call)) => called.push(&raw const call.expr),
        Node::Expr(expr @ Expr::GetAttr(attr)) if DICT_METHODS.contains(&attr.name) => {
            let end = expr.span().end_offset as usize;
            let range = end.saturating_sub(attr.name.len() + 1)..end;
            if source.get(range.clone()).and_then(|text| text.strip_prefix('.')) == Some(attr.name) {
                let name = attr.name;
                found.push((std::ptr::from_ref(expr), (range, format!("['{METHOD_MARK}{name}']"))));
            }
        }
        _ => {}
    });
    found.retain(|(expr, _)| !called.contains(expr));
    found.into_iter().map(|(_, edit)| edit).collect()
}

/// `for x in y` fails where `y` is none, as in Python; the engine would loop over nothing.
fn loop_edits(tree: &Stmt<'_>) -> Vec<Edit> {
    let mut edits = Vec::new();
    walk::stmt(tree, &mut |node| {
        let Node::Stmt(Stmt::ForLoop(node)) = node else { return };
        if matches!(node.iter, Expr::Var(_) | Expr::GetAttr(_) | Expr::GetItem(_)) {
            let end = node.iter.span().end_offset as usize;
            edits.push((end..end, format!("|{ITERATED}")));
        }
    });
    edits
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
    fn loops_check_what_they_loop_over() {
        let source = "{% for a in b.c %}{% for d in e if d %}{% endfor %}{% endfor %}";
        let rewritten = as_python(source, &SyntaxConfig::default(), false);
        assert_eq!(
            rewritten.unwrap(),
            "{% for a in b.c|_iterated %}{% for d in e|_iterated if d %}{% endfor %}{% endfor %}"
        );
    }

    #[test]
    fn methods_are_bound_unless_called() {
        let syntax = SyntaxConfig::default();
        let rewritten = as_python("{{ a.items }}{{ a.items() }}{% if a.b.keys is x %}{% endif %}", &syntax, false);
        assert_eq!(rewritten.unwrap(), "{{ a['\u{1}items'] }}{{ a.items() }}{% if a.b['\u{1}keys'] is x %}{% endif %}");
    }
}
