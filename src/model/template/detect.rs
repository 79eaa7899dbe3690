//! Whether a template reads the content of a message as text or as a list of parts.
//!
//! A template that loops over `message.content` wants OpenAI's parts; any other wants text. vLLM decides it by looking
//! at the syntax tree; so does this, by the same rules.

use std::collections::HashSet;

use minijinja::machinery::ast::{CallArg, Expr, ForLoop, Macro, Stmt};

use super::walk::{self, Node};

/// True where the template loops over the parts of a content.
pub(super) fn wants_parts(template: &Stmt<'_>) -> bool {
    let tree = Tree::collect(template);
    let messages = tree.names_of("messages");
    let message_names: HashSet<String> =
        tree.loops_over(|iter| messages.iter().any(|name| is_var(iter, name))).collect();
    tree.loops.iter().any(|(node, within)| {
        message_names.iter().any(|name| is_attr(&node.iter, name, "content"))
            || match (var_name(&node.iter), within) {
                (Some(name), Some(index)) => tree.content_params(*index, &message_names).contains(name),
                (Some(name), None) => name == "content",
                _ => false,
            }
    })
}

/// The nodes that matter, gathered once.
struct Tree<'t, 's> {
    assigns: Vec<(&'t Expr<'s>, &'t Expr<'s>)>,
    loops: Vec<(&'t ForLoop<'s>, Option<usize>)>,
    macros: Vec<&'t Macro<'s>>,
    calls: Vec<(&'t str, &'t [CallArg<'s>])>,
}

impl<'t, 's> Tree<'t, 's> {
    fn collect(template: &'t Stmt<'s>) -> Self {
        let mut tree = Self { assigns: Vec::new(), loops: Vec::new(), macros: Vec::new(), calls: Vec::new() };
        walk::stmt(template, &mut |node| match node {
            Node::Stmt(Stmt::Set(set)) => tree.assigns.push((&set.target, &set.expr)),
            Node::Stmt(Stmt::ForLoop(node)) => tree.loops.push((node, None)),
            Node::Stmt(Stmt::Macro(node)) => tree.macros.push(node),
            Node::Expr(Expr::Call(call)) => {
                if let Some(name) = var_name(&call.expr) {
                    tree.calls.push((name, &call.args));
                }
            }
            _ => {}
        });
        for (index, node) in tree.macros.iter().enumerate() {
            for statement in &node.body {
                walk::stmt(statement, &mut |inner| {
                    if let Node::Stmt(Stmt::ForLoop(inner)) = inner {
                        let inner: &ForLoop<'_> = inner;
                        for (known, within) in &mut tree.loops {
                            if std::ptr::eq(*known, inner) {
                                *within = Some(index);
                            }
                        }
                    }
                });
            }
        }
        tree
    }

    /// All names that stand for the variable or its elements: `{% set x = messages[1:] %}`, `ns.rest = messages`.
    fn names_of(&self, name: &str) -> Vec<String> {
        let mut names = vec![name.to_owned()];
        let mut next = 0;
        while let Some(current) = names.get(next).cloned() {
            next += 1;
            for (target, value) in &self.assigns {
                for alias in aliases(target, value, &current) {
                    if !names.contains(&alias) {
                        names.push(alias);
                    }
                }
            }
        }
        names
    }

    /// The loop variables of loops over what `accept` takes.
    fn loops_over(&self, accept: impl Fn(&Expr<'_>) -> bool) -> impl Iterator<Item = String> {
        self.loops
            .iter()
            .filter(move |(node, _)| accept(&node.iter))
            .filter_map(|(node, _)| var_name(&node.target).map(str::to_owned))
    }

    /// The parameters of a macro that some call gives a message's content.
    fn content_params(&self, index: usize, message_names: &HashSet<String>) -> HashSet<&'t str> {
        let Some(node) = self.macros.get(index) else { return HashSet::new() };
        let params: Vec<&str> = node.args.iter().filter_map(var_name).collect();
        let is_content = |expr: &Expr<'_>| message_names.iter().any(|name| is_attr(expr, name, "content"));
        let mut found = HashSet::new();
        for (_, args) in self.calls.iter().filter(|(name, _)| *name == node.name) {
            let mut position = 0;
            for arg in *args {
                match arg {
                    CallArg::Pos(expr) => {
                        if let Some(param) = params.get(position).filter(|_| is_content(expr)) {
                            found.insert(*param);
                        }
                        position += 1;
                    }
                    CallArg::Kwarg(name, expr) => {
                        if let Some(param) = params.iter().find(|param| *param == name).filter(|_| is_content(expr)) {
                            found.insert(*param);
                        }
                    }
                    CallArg::PosSplat(_) | CallArg::KwargSplat(_) => {}
                }
            }
        }
        found
    }
}

/// The names that an assignment gives to `name` or its elements.
fn aliases(target: &Expr<'_>, value: &Expr<'_>, name: &str) -> Vec<String> {
    let mut found = Vec::new();
    match (target, value) {
        (Expr::Var(target), Expr::Call(call)) if var_name(&call.expr) == Some("namespace") => {
            for arg in &call.args {
                if let CallArg::Kwarg(key, value) = arg
                    && is_var(value, name)
                {
                    found.push(format!("{}.{key}", target.id));
                }
            }
        }
        (Expr::Var(target), value) if is_var(value, name) => found.push(target.id.to_owned()),
        (Expr::GetAttr(_), value) if is_var(value, name) => found.extend(dotted(target)),
        _ => {}
    }
    found
}

fn dotted(expr: &Expr<'_>) -> Option<String> {
    match expr {
        Expr::Var(var) => Some(var.id.to_owned()),
        Expr::GetAttr(attr) => Some(format!("{}.{}", dotted(&attr.expr)?, attr.name)),
        _ => None,
    }
}

/// Looks through filters, tests and slices.
fn inner<'t, 's>(expr: &'t Expr<'s>) -> &'t Expr<'s> {
    match expr {
        Expr::Filter(filter) => filter.expr.as_ref().map_or(expr, inner),
        Expr::Test(test) => inner(&test.expr),
        Expr::Slice(slice) => inner(&slice.expr),
        other => other,
    }
}

/// True where `expr` is the variable `name` (which may be dotted), seen through filters, tests and slices.
fn is_var(expr: &Expr<'_>, name: &str) -> bool {
    is_plain_var(inner(expr), name)
}

fn is_plain_var(expr: &Expr<'_>, name: &str) -> bool {
    match expr {
        Expr::Var(var) => var.id == name,
        Expr::GetAttr(attr) => {
            name.rsplit_once('.').is_some_and(|(base, last)| attr.name == last && is_plain_var(&attr.expr, base))
        }
        _ => false,
    }
}

/// True where `expr` is `name.key` or `name['key']`, seen through filters, tests and slices.
fn is_attr(expr: &Expr<'_>, name: &str, key: &str) -> bool {
    match inner(expr) {
        Expr::GetAttr(attr) => attr.name == key && is_plain_var(&attr.expr, name),
        Expr::GetItem(item) => match &item.subscript_expr {
            Expr::Const(constant) => constant.value.as_str() == Some(key) && is_plain_var(&item.expr, name),
            _ => false,
        },
        _ => false,
    }
}

fn var_name<'t>(expr: &'t Expr<'_>) -> Option<&'t str> {
    match expr {
        Expr::Var(var) => Some(var.id),
        _ => None,
    }
}
