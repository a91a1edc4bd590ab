#include <algorithm>

#include "core/fail.h"
#include "text/jinja_interpreter.h"
#include "text/jinja_operators.h"
#include "text/jinja_scope.h"

namespace quire::jinja {

Result<Value> Interpreter::evaluate(const Expr& e) {
  const Deeper deeper(*this);
  if (budget_.exhausted()) return budget_.error();
  Result<Value> value = evaluate_deep(e);
  // What exhausted the budget gave a value that means nothing.
  if (value.ok() && budget_.exhausted()) return budget_.error();
  return value;
}

Result<Value> Interpreter::evaluate_deep(const Expr& e) {
  switch (e.kind) {
    case Expr::Kind::constant:
      return e.value;
    case Expr::Kind::name:
      return look_up(e.name);
    case Expr::Kind::list:
    case Expr::Kind::tuple: {
      QUIRE_TRY(std::vector<Value> items, evaluate_all(e.parts, 0));
      return sequence(std::move(items), e.kind == Expr::Kind::list ? SequenceKind::list : SequenceKind::tuple, budget_);
    }
    case Expr::Kind::dict:
      return evaluate_dict(e);
    case Expr::Kind::attribute: {
      QUIRE_TRY(const Value v, evaluate(*e.parts[0]));
      return get_attribute(v, e.name, budget_);
    }
    case Expr::Kind::item: {
      QUIRE_TRY(const Value v, evaluate(*e.parts[0]));
      QUIRE_TRY(const Value key, evaluate(*e.parts[1]));
      return get_item(v, key, budget_);
    }
    case Expr::Kind::slice:
      return evaluate_slice(e);
    case Expr::Kind::call:
      return evaluate_call(e);
    case Expr::Kind::filter:
      return apply_filter(e);
    case Expr::Kind::test: {
      QUIRE_TRY(const Value v, evaluate(*e.parts[0]));
      QUIRE_TRY(const Args args, evaluate_arguments(e));
      QUIRE_TRY(const bool passes, call_test(e.name, v, args, budget_));
      return boolean(passes);
    }
    case Expr::Kind::negate: {
      QUIRE_TRY(const Value v, evaluate(*e.parts[0]));
      return negate(v);
    }
    case Expr::Kind::plus: {
      QUIRE_TRY(const Value v, evaluate(*e.parts[0]));
      if (v.integer()) return integer(*v.integer());
      if (v.number()) return v;
      return v.is<Undefined>() ? undefined_error(v) : fail(Errc::bad_file, "a {} has no sign", type_name(v));
    }
    case Expr::Kind::logical_not: {
      QUIRE_TRY(const Value v, evaluate(*e.parts[0]));
      return boolean(!truthy(v));
    }
    case Expr::Kind::chain:
      return evaluate_chain(e);
    case Expr::Kind::compare:
      return evaluate_compare(e);
    case Expr::Kind::conditional:
      return evaluate_conditional(e);
  }
  return undefined();
}

Result<Value> Interpreter::evaluate_or_none(const ExprPtr& e) {
  if (!e) return none();
  return evaluate(*e);
}

Result<std::vector<Value>> Interpreter::evaluate_all(const std::vector<ExprPtr>& parts, std::size_t from) {
  std::vector<Value> values;
  for (std::size_t i = from; i < parts.size(); ++i) {
    QUIRE_TRY(Value v, evaluate(*parts[i]));
    values.push_back(std::move(v));
  }
  return values;
}

Result<Value> Interpreter::evaluate_dict(const Expr& e) {
  std::vector<std::pair<Value, Value>> entries;
  for (std::size_t i = 0; i < e.parts.size(); i += 2) {
    QUIRE_TRY(Value key, evaluate(*e.parts[i]));
    QUIRE_TRY(Value value, evaluate(*e.parts[i + 1]));
    if (!hashable(key)) return fail(Errc::bad_file, "a {} cannot be a key", type_name(key));
    insert(entries, std::move(key), std::move(value), budget_);
  }
  return dict(std::move(entries), budget_);
}

Result<Value> Interpreter::evaluate_slice(const Expr& e) {
  QUIRE_TRY(const Value v, evaluate(*e.parts[0]));
  QUIRE_TRY(const Value start, evaluate_or_none(e.parts[1]));
  QUIRE_TRY(const Value stop, evaluate_or_none(e.parts[2]));
  QUIRE_TRY(const Value step, evaluate_or_none(e.parts[3]));
  return get_slice(v, start, stop, step, budget_);
}

Result<Value> Interpreter::evaluate_chain(const Expr& e) {
  QUIRE_TRY(Value left, evaluate(*e.parts[0]));
  for (std::size_t i = 0; i < e.operators.size(); ++i) {
    const Operator op = e.operators[i];
    const bool logical = op == Operator::logical_and || op == Operator::logical_or;
    if (logical && truthy(left) == (op == Operator::logical_or)) continue;  // decided already
    QUIRE_TRY(Value right, evaluate(*e.parts[i + 1]));
    if (logical) {
      left = std::move(right);
    } else {
      QUIRE_TRY(left, arithmetic(op, left, right, budget_));
    }
  }
  return left;
}

Result<Value> Interpreter::evaluate_compare(const Expr& e) {
  QUIRE_TRY(Value left, evaluate(*e.parts[0]));
  for (std::size_t i = 0; i < e.operators.size(); ++i) {
    QUIRE_TRY(Value right, evaluate(*e.parts[i + 1]));
    QUIRE_TRY(const bool holds, compare(e.operators[i], left, right, budget_));
    if (!holds) return boolean(false);
    left = std::move(right);
  }
  return boolean(true);
}

Result<Value> Interpreter::evaluate_conditional(const Expr& e) {
  QUIRE_TRY(const Value condition, evaluate(*e.parts[1]));
  if (truthy(condition)) return evaluate(*e.parts[0]);
  if (!e.parts[2]) return undefined();
  return evaluate(*e.parts[2]);
}

Result<Value> Interpreter::apply_filter(const Expr& e) {
  Value subject;
  if (e.parts[0]) {
    QUIRE_TRY(subject, evaluate(*e.parts[0]));
  } else {
    subject = *filtered_;
  }
  QUIRE_TRY(const Args args, evaluate_arguments(e));
  return call_filter(e.name, subject, args, budget_);
}

Result<Args> Interpreter::evaluate_arguments(const Expr& e) {
  Args args;
  QUIRE_TRY(args.positional, evaluate_all(e.parts, 1));
  for (const auto& [name, part] : e.named) {
    QUIRE_TRY(Value v, evaluate(*part));
    args.named.emplace_back(name, std::move(v));
  }
  if (e.star) {
    QUIRE_TRY(const Value v, evaluate(*e.star));
    QUIRE_TRY(const std::vector<Value> items, iterate(v, budget_));
    args.positional.insert(args.positional.end(), items.begin(), items.end());
  }
  if (e.star_star) {
    QUIRE_TRY(const Value v, evaluate(*e.star_star));
    if (!v.dict()) return fail(Errc::bad_file, "a ** argument needs a dict, not {}", type_name(v));
    for (const auto& [key, value] : v.dict()->entries) {
      if (!key.text()) return fail(Errc::bad_file, "a ** argument needs strings as keys");
      args.named.emplace_back(*key.text(), value);
    }
  }
  return args;
}

Result<Value> Interpreter::evaluate_call(const Expr& e) {
  QUIRE_TRY(const Value callee, evaluate(*e.parts[0]));
  QUIRE_TRY(const Args args, evaluate_arguments(e));
  const Callable* c = callee.callable();
  if (!c)
    return callee.is<Undefined>() ? undefined_error(callee)
                                  : fail(Errc::bad_file, "a {} cannot be called", type_name(callee));
  switch (c->kind) {
    case Callable::Kind::macro:
      return call_macro(*c, args);
    case Callable::Kind::method:
      return call_method(c->self, c->name, args, budget_);
    case Callable::Kind::cycle:
      if (args.positional.empty()) return fail(Errc::bad_file, "loop.cycle needs something to cycle through");
      return args.positional[c->self.loop()->index % args.positional.size()];
    case Callable::Kind::global:
      return c->name == "namespace" ? make_namespace(args) : find_function(c->name)(args, budget_);
  }
  return undefined();
}

}  // namespace quire::jinja
