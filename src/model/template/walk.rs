//! Visits every statement and expression of a parsed template.

use minijinja::machinery::ast::{CallArg, Expr, Stmt};

/// A node of the tree.
#[derive(Clone, Copy)]
pub(super) enum Node<'t, 's> {
    /// A statement.
    Stmt(&'t Stmt<'s>),
    /// An expression.
    Expr(&'t Expr<'s>),
}

/// Calls `visit` for the statement and everything in it, outer nodes first.
pub(super) fn stmt<'t, 's>(node: &'t Stmt<'s>, visit: &mut dyn FnMut(Node<'t, 's>)) {
    visit(Node::Stmt(node));
    match node {
        Stmt::Template(s) => all(&s.children, visit),
        Stmt::EmitExpr(s) => expr(&s.expr, visit),
        Stmt::EmitRaw(_) | Stmt::Continue(_) | Stmt::Break(_) => {}
        Stmt::ForLoop(s) => {
            expr(&s.target, visit);
            expr(&s.iter, visit);
            optional(s.filter_expr.as_ref(), visit);
            all(&s.body, visit);
            all(&s.else_body, visit);
        }
        Stmt::IfCond(s) => {
            expr(&s.expr, visit);
            all(&s.true_body, visit);
            all(&s.false_body, visit);
        }
        Stmt::WithBlock(s) => {
            for (target, value) in &s.assignments {
                expr(target, visit);
                expr(value, visit);
            }
            all(&s.body, visit);
        }
        Stmt::Set(s) => {
            expr(&s.target, visit);
            expr(&s.expr, visit);
        }
        Stmt::SetBlock(s) => {
            expr(&s.target, visit);
            optional(s.filter.as_ref(), visit);
            all(&s.body, visit);
        }
        Stmt::AutoEscape(s) => all(&s.body, visit),
        Stmt::FilterBlock(s) => {
            expr(&s.filter, visit);
            all(&s.body, visit);
        }
        Stmt::Block(s) => all(&s.body, visit),
        Stmt::Import(s) => expr(&s.expr, visit),
        Stmt::FromImport(s) => expr(&s.expr, visit),
        Stmt::Extends(s) => expr(&s.name, visit),
        Stmt::Include(s) => expr(&s.name, visit),
        Stmt::Macro(s) => {
            s.defaults.iter().for_each(|default| expr(default, visit));
            all(&s.body, visit);
        }
        Stmt::CallBlock(s) => {
            expr(&s.call.expr, visit);
            args(&s.call.args, visit);
            all(&s.macro_decl.body, visit);
        }
        Stmt::Do(s) => {
            expr(&s.call.expr, visit);
            args(&s.call.args, visit);
        }
    }
}

fn all<'t, 's>(nodes: &'t [Stmt<'s>], visit: &mut dyn FnMut(Node<'t, 's>)) {
    nodes.iter().for_each(|node| stmt(node, visit));
}

fn optional<'t, 's>(node: Option<&'t Expr<'s>>, visit: &mut dyn FnMut(Node<'t, 's>)) {
    if let Some(node) = node {
        expr(node, visit);
    }
}

fn args<'t, 's>(nodes: &'t [CallArg<'s>], visit: &mut dyn FnMut(Node<'t, 's>)) {
    for node in nodes {
        match node {
            CallArg::Pos(e) | CallArg::Kwarg(_, e) | CallArg::PosSplat(e) | CallArg::KwargSplat(e) => expr(e, visit),
        }
    }
}

fn expr<'t, 's>(node: &'t Expr<'s>, visit: &mut dyn FnMut(Node<'t, 's>)) {
    visit(Node::Expr(node));
    match node {
        Expr::Var(_) | Expr::Const(_) => {}
        Expr::Slice(e) => {
            expr(&e.expr, visit);
            for part in [&e.start, &e.stop, &e.step] {
                optional(part.as_ref(), visit);
            }
        }
        Expr::UnaryOp(e) => expr(&e.expr, visit),
        Expr::BinOp(e) => {
            expr(&e.left, visit);
            expr(&e.right, visit);
        }
        Expr::Compare(e) => {
            expr(&e.expr, visit);
            e.ops.iter().for_each(|op| expr(&op.expr, visit));
        }
        Expr::IfExpr(e) => {
            expr(&e.test_expr, visit);
            expr(&e.true_expr, visit);
            optional(e.false_expr.as_ref(), visit);
        }
        Expr::Filter(e) => {
            optional(e.expr.as_ref(), visit);
            args(&e.args, visit);
        }
        Expr::Test(e) => {
            expr(&e.expr, visit);
            args(&e.args, visit);
        }
        Expr::GetAttr(e) => expr(&e.expr, visit),
        Expr::GetItem(e) => {
            expr(&e.expr, visit);
            expr(&e.subscript_expr, visit);
        }
        Expr::Call(e) => {
            expr(&e.expr, visit);
            args(&e.args, visit);
        }
        Expr::List(e) => e.items.iter().for_each(|item| expr(item, visit)),
        Expr::Tuple(e) => e.items.iter().for_each(|item| expr(item, visit)),
        Expr::Map(e) => e.keys.iter().chain(&e.values).for_each(|item| expr(item, visit)),
    }
}
