//! Bounds on templates that came with requests, where the engine's fuel does not reach.
//!
//! The engine charges for instructions, text and lists, but not for what nests: values that share parts can be small and
//! take forever to compare or print, sums of lists are copied at once after they were lazy, and a namespace inside itself
//! has no end at all. So what a template builds of other values is measured, and none of them may have a namespace inside.

use std::collections::HashSet;

use minijinja::machinery::ast::{BinOpKind, Expr, Stmt};
use minijinja::value::{Kwargs, Rest, ValueKind, ValueOrKwargs};
use minijinja::{Environment, Error, ErrorKind, State, Value, filters, functions as builtin};

use super::functions::Generator;
use super::source::Edit;
use super::value::Dict;
use super::walk::{self, Node};

/// Steps of one rendering; see the environment's own.
const FUEL: u64 = 1_000_000;
/// Most values in one that a template built. Those that the request brought, like its messages, count as one.
const MAX_NODES: u64 = 1 << 14;
/// Most operators in a source.
const MAX_OPERATORS: usize = 4096;
/// Deepest nesting of what a template builds.
const MAX_DEPTH: usize = 100;
/// Values that are measured for one step of fuel.
const NODES_PER_FUEL: u64 = 16;

/// The filter that measures.
const MEASURED: &str = "_measured";

/// Makes an environment one for foreign templates.
pub(super) fn bound(env: &mut Environment<'static>) {
    env.set_fuel(Some(FUEL));
    env.add_filter(MEASURED, measured);
    for (name, filter) in [
        ("zip", Value::from_function(filters::zip)),
        ("batch", Value::from_function(filters::batch)),
        ("slice", Value::from_function(filters::slice)),
    ] {
        env.add_filter(name, move |state: &mut State, args: Rest<ValueOrKwargs>| {
            let made = filter.call(state, &args.into_values())?;
            measured(state, made)
        });
    }
    env.add_function("dict", |state: &State, value: Option<Value>, more: Kwargs| {
        measured(state, builtin::dict(value, more)?)
    });
}

/// Lets pass what is not too large.
fn measured(state: &State, value: Value) -> Result<Value, Error> {
    let mut left = MAX_NODES;
    let fits = count(&value, 0, &mut left);
    state.consume_fuel((MAX_NODES - left) / NODES_PER_FUEL)?;
    if fits { Ok(value) } else { Err(Error::from(ErrorKind::OutOfFuel)) }
}

/// Takes the values inside from `left`; false where it does not suffice.
fn count(value: &Value, depth: usize, left: &mut u64) -> bool {
    if *left == 0 || depth > MAX_DEPTH {
        return false;
    }
    *left -= 1;
    if value.as_object().is_some_and(|object| object.type_name().ends_with("::Namespace")) {
        return false;
    }
    if value.downcast_object_ref::<Dict>().is_some() {
        return true;
    }
    if let Some(generator) = value.downcast_object_ref::<Generator>() {
        return generator.items.iter().all(|item| count(item, depth + 1, left));
    }
    match value.kind() {
        ValueKind::Seq | ValueKind::Iterable if value.len().is_some_and(|len| len as u64 <= *left) => {
            value.try_iter().into_iter().flatten().all(|item| count(&item, depth + 1, left))
        }
        ValueKind::Seq => false,
        // Without a length it is a stream, which is not read twice.
        ValueKind::Iterable => value.len().is_none(),
        ValueKind::Map => value.try_iter().into_iter().flatten().all(|key| {
            count(&key, depth + 1, left) && value.get_item(&key).is_ok_and(|item| count(&item, depth + 1, left))
        }),
        _ => true,
    }
}

/// Measures what literals, sums and products make, and what namespaces are given. Refuses a source with so many operators
/// that compiling it would take long: the engine evaluates what is constant at each of them anew.
pub(super) fn edits(tree: &Stmt<'_>, source: &str) -> Result<Vec<Edit>, Error> {
    let mut operators = 0;
    walk::stmt(tree, &mut |node| operators += usize::from(matches!(node, Node::Expr(Expr::BinOp(_)))));
    if operators > MAX_OPERATORS {
        let message = format!("the chat template has {operators} operators, more than {MAX_OPERATORS}");
        return Err(Error::new(ErrorKind::InvalidOperation, message));
    }
    let mut targets: HashSet<*const Expr<'_>> = HashSet::new();
    let mut edits = Vec::new();
    walk::stmt(tree, &mut |node| match node {
        Node::Stmt(Stmt::ForLoop(node)) => add_targets(&node.target, &mut targets),
        Node::Stmt(Stmt::Set(node)) => {
            add_targets(&node.target, &mut targets);
            if matches!(node.target, Expr::GetAttr(_)) || matches!(node.expr, Expr::Tuple(_)) {
                edits.extend(behind_sign(&node.target, &node.expr, source));
            }
        }
        Node::Stmt(Stmt::SetBlock(node)) => add_targets(&node.target, &mut targets),
        Node::Stmt(Stmt::WithBlock(node)) => {
            node.assignments.iter().for_each(|(target, _)| add_targets(target, &mut targets));
        }
        Node::Stmt(_) => {}
        Node::Expr(expr) if targets.contains(&std::ptr::from_ref(expr)) || !builds(expr) => {}
        Node::Expr(expr) => {
            let span = expr.span();
            let (start, end) = (span.start_offset as usize, span.end_offset as usize);
            // A tuple without parentheses is only found where it is set, and measured there.
            if matches!(expr, Expr::Tuple(_)) && source.as_bytes().get(start) != Some(&b'(') {
                return;
            }
            let (open, close) = if matches!(expr, Expr::BinOp(_)) { ("((", ")") } else { ("(", "") };
            edits.push((start..start, open.to_owned()));
            edits.push((end..end, format!("{close}|{MEASURED})")));
        }
    });
    Ok(edits)
}

/// Measures what is set. It begins behind the `=`.
fn behind_sign(target: &Expr<'_>, value: &Expr<'_>, source: &str) -> Vec<Edit> {
    let after_target = target.span().end_offset as usize;
    let sign = source.get(after_target..).and_then(|rest| rest.find('='));
    let Some(sign) = sign else { return Vec::new() };
    let (start, end) = (after_target + sign + 1, value.span().end_offset as usize);
    vec![(start..start, "((".to_owned()), (end..end, format!(")|{MEASURED})"))]
}

/// True where the expression makes a value of others.
fn builds(expr: &Expr<'_>) -> bool {
    let any = |items: &[Expr<'_>]| items.iter().any(|item| !matches!(item, Expr::Const(_)));
    match expr {
        Expr::BinOp(operation) => matches!(operation.op, BinOpKind::Add | BinOpKind::Mul),
        Expr::List(list) => any(&list.items),
        Expr::Tuple(tuple) => any(&tuple.items),
        Expr::Map(map) => any(&map.values),
        _ => false,
    }
}

fn add_targets<'s>(target: &Expr<'s>, targets: &mut HashSet<*const Expr<'s>>) {
    targets.insert(std::ptr::from_ref(target));
    let items = match target {
        Expr::List(list) => &list.items,
        Expr::Tuple(tuple) => &tuple.items,
        _ => return,
    };
    items.iter().for_each(|item| add_targets(item, targets));
}

#[cfg(test)]
mod tests {
    use minijinja::syntax::SyntaxConfig;

    use super::super::source::as_python;

    fn rewritten(source: &str) -> String {
        as_python(source, &SyntaxConfig::default(), true).unwrap()
    }

    #[test]
    fn what_is_built_is_measured() {
        assert_eq!(
            rewritten("{{ -a.b + c * (d + 1)|f ~ e.items }}"),
            "{{ ((-a.b + ((c * (((d + 1)|_measured))|f)|_measured) ~ e['\u{1}items'])|_measured) }}"
        );
        assert_eq!(
            rewritten("{{ [a, 'b'][0] }}{{ {'c': d} }}"),
            "{{ ([a, 'b']|_measured)[0] }}{{ ({'c': d}|_measured) }}"
        );
        assert_eq!(rewritten("{{ [a] + [b] }}"), "{{ ((([a]|_measured) + ([b]|_measured))|_measured) }}");
        assert_eq!(rewritten("{% set x =a, b %}"), "{% set x =((a, b)|_measured) %}");
        assert_eq!(rewritten("{{ (a, b)[0] }}"), "{{ ((a, b)|_measured)[0] }}");
    }

    #[test]
    fn targets_and_constants_are_left_alone() {
        for source in ["{% for (a, b) in c.d() %}{% endfor %}", "{% set (a, b) = c %}", "{{ ['a', 'b'] }}"] {
            assert_eq!(rewritten(source), source);
        }
    }

    #[test]
    fn what_namespaces_get_is_measured() {
        for (value, measured) in [
            ("a", "((a)|_measured)"),
            ("(a if b else c)", "(((a if b else c)|_measured))"),
            ("a|f(b)", "((a|f(b))|_measured)"),
            ("[a]", "((([a]|_measured))|_measured)"),
            ("a, b", "((a, b)|_measured)"),
            ("a.items", "((a['\u{1}items'])|_measured)"),
        ] {
            let source = format!("{{%- set ns.x ={value} -%}}");
            assert_eq!(rewritten(&source), format!("{{%- set ns.x ={measured} -%}}"));
        }
    }
}
