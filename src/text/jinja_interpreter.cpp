#include "text/jinja_interpreter.h"

#include <algorithm>

#include "core/fail.h"
#include "text/jinja_operators.h"
#include "text/jinja_scope.h"

namespace quire::jinja {

Result<std::string> Interpreter::render(const Block& body) {
  TextBuilder out(budget_);
  QUIRE_TRY([[maybe_unused]] const Flow flow, run(body, out));
  if (budget_.exhausted()) return budget_.error();
  return out.take();
}

Result<Interpreter::Flow> Interpreter::run(const Block& block, TextBuilder& out) {
  for (const Stmt& statement : block) {
    Result<Flow> flow = run(statement, out);
    if (flow.ok() && budget_.exhausted()) flow = budget_.error();
    if (!flow.ok()) {
      Error error = std::move(flow).error();
      if (!std::exchange(located_, true)) error.message = fmt::format("line {}: {}", statement.line, error.message);
      return error;
    }
    if (*flow != Flow::next) return flow;
  }
  return Flow::next;
}

Result<Interpreter::Flow> Interpreter::run(const Stmt& statement, TextBuilder& out) {
  const Deeper deeper(*this);
  if (budget_.exhausted()) return budget_.error();
  switch (statement.kind) {
    case Stmt::Kind::text:
      out.append(statement.text);
      return Flow::next;
    case Stmt::Kind::output:
      for (const ExprPtr& e : statement.exprs) {
        QUIRE_TRY(const Value v, evaluate(*e));
        QUIRE_CHECK_OK(write_str(v, out));
      }
      return Flow::next;
    case Stmt::Kind::if_else:
      return run_if(statement, out);
    case Stmt::Kind::for_loop:
      return run_for(statement, out);
    case Stmt::Kind::set:
      QUIRE_CHECK_OK(run_set(statement));
      return Flow::next;
    case Stmt::Kind::set_block:
      QUIRE_CHECK_OK(run_set_block(statement, nullptr));
      return Flow::next;
    case Stmt::Kind::filter_block:
      QUIRE_CHECK_OK(run_set_block(statement, &out));
      return Flow::next;
    case Stmt::Kind::macro:
      scope_->variables[statement.text] =
          callable({Callable::Kind::macro, statement.text, {}, statement.macro.get()}, budget_);
      return Flow::next;
    case Stmt::Kind::with:
      return run_with(statement, out);
    case Stmt::Kind::pass_through: {
      Scope inner{scope_};
      const Enter enter(*this, inner);
      return run(statement.blocks[0], out);
    }
    case Stmt::Kind::break_loop:
      return Flow::break_loop;
    case Stmt::Kind::continue_loop:
      return Flow::continue_loop;
  }
  return Flow::next;
}

Result<Interpreter::Flow> Interpreter::run_if(const Stmt& statement, TextBuilder& out) {
  for (std::size_t i = 0; i < statement.exprs.size(); ++i) {
    QUIRE_TRY(const Value condition, evaluate(*statement.exprs[i]));
    if (truthy(condition)) return run(statement.blocks[i], out);
  }
  if (statement.blocks.size() > statement.exprs.size()) return run(statement.blocks.back(), out);
  return Flow::next;
}

// The elements that pass the loop's own filter, which sees the loop's variables but no `loop`.
Result<std::vector<Value>> Interpreter::loop_items(const Stmt& statement) {
  QUIRE_TRY(const Value iterable, evaluate(*statement.exprs[0]));
  QUIRE_TRY(std::vector<Value> items, iterate(iterable, budget_));
  if (!statement.exprs[1]) return items;
  std::vector<Value> passed;
  for (Value& item : items) {
    Scope inner{scope_};
    const Enter enter(*this, inner);
    QUIRE_CHECK_OK(assign(statement.targets[0], item));
    QUIRE_TRY(const Value passes, evaluate(*statement.exprs[1]));
    if (truthy(passes)) passed.push_back(std::move(item));
  }
  return passed;
}

Result<Interpreter::Flow> Interpreter::run_for(const Stmt& statement, TextBuilder& out) {
  QUIRE_TRY(std::vector<Value> items, loop_items(statement));
  const Value loop_value = loop_object({std::move(items)}, budget_);
  if (budget_.exhausted()) return budget_.error();
  const Loop& loop = *loop_value.loop();
  bool completed = false;
  for (loop.index = 0; loop.index < loop.items.size(); ++loop.index) {
    if (!budget_.spend(1)) return budget_.error();
    Scope inner{scope_};
    const Enter enter(*this, inner);
    inner.variables["loop"] = loop_value;
    QUIRE_CHECK_OK(assign(statement.targets[0], loop.items[loop.index]));
    QUIRE_TRY(const Flow flow, run(statement.blocks[0], out));
    completed = completed || flow == Flow::next;
    if (flow == Flow::break_loop) break;
  }
  if (completed) return Flow::next;
  // Not only for empty loops: also if each iteration ended in break or continue, as Jinja2 has it.
  Scope inner{scope_};
  const Enter enter(*this, inner);
  return run(statement.blocks[1], out);
}

Result<Interpreter::Flow> Interpreter::run_with(const Stmt& statement, TextBuilder& out) {
  QUIRE_TRY(std::vector<Value> values, evaluate_all(statement.exprs, 0));
  Scope inner{scope_};
  const Enter enter(*this, inner);
  for (std::size_t i = 0; i < values.size(); ++i) QUIRE_CHECK_OK(assign(statement.targets[i], std::move(values[i])));
  return run(statement.blocks[0], out);
}

Result<void> Interpreter::run_set(const Stmt& statement) {
  QUIRE_TRY(Value value, evaluate(*statement.exprs[0]));
  return assign(statement.targets[0], std::move(value));
}

// {% set x %} and {% filter f %}: what a block prints, perhaps filtered, goes to a variable or to `out`.
Result<void> Interpreter::run_set_block(const Stmt& statement, TextBuilder* out) {
  TextBuilder printed(budget_);
  {
    Scope inner{scope_};
    const Enter enter(*this, inner);
    QUIRE_TRY([[maybe_unused]] const Flow flow, run(statement.blocks[0], printed));
  }
  Value value = text(printed.take());
  if (statement.exprs[0]) {
    const Value subject = value;
    const Value* outer = std::exchange(filtered_, &subject);
    Result<Value> filtered = evaluate(*statement.exprs[0]);
    filtered_ = outer;
    QUIRE_TRY(value, std::move(filtered));
  }
  if (out) return write_str(value, *out);
  return assign(statement.targets[0], std::move(value));
}

Result<void> Interpreter::assign(const Target& target, Value value) {
  if (target.is_tuple) {
    QUIRE_TRY(std::vector<Value> items, iterate(value, budget_));
    if (items.size() != target.items.size()) {
      return fail(Errc::bad_file, "{} values cannot be assigned to {} names", items.size(), target.items.size());
    }
    for (std::size_t i = 0; i < items.size(); ++i) QUIRE_CHECK_OK(assign(target.items[i], std::move(items[i])));
    return {};
  }
  if (target.attribute.empty()) {
    scope_->variables[target.name] = std::move(value);
    return {};
  }
  Namespace* n = look_up(target.name).name_space();
  if (!n) return fail(Errc::bad_file, "'{}' is not a namespace, so '{}' cannot be set", target.name, target.attribute);
  n->attributes[target.attribute] = std::move(value);
  return {};
}

Value Interpreter::look_up(std::string_view name) {
  for (const Scope* scope = scope_; scope; scope = scope->parent) {
    if (const auto found = scope->variables.find(name); found != scope->variables.end()) return found->second;
  }
  if (const Value* found = find(variables_, name, budget_)) return *found;
  if (name == "namespace" || find_function(name)) return callable({Callable::Kind::global, std::string(name)}, budget_);
  return undefined(name);
}

Result<Value> Interpreter::call_macro(const Callable& macro, const Args& args) {
  const std::vector<std::string>& parameters = macro.macro->parameters;
  const std::vector<ExprPtr>& defaults = macro.macro->defaults;
  if (args.positional.size() > parameters.size()) {
    return fail(Errc::bad_file, "the macro '{}' takes {} arguments, not {}", macro.name, parameters.size(),
                args.positional.size());
  }
  if (!budget_.spend(parameters.size() * (1 + args.named.size()))) return budget_.error();
  std::size_t used = args.positional.size();
  Scope inner{&root_};
  const Enter enter(*this, inner);
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const auto named = std::find_if(args.named.begin(), args.named.end(),
                                    [&](const auto& argument) { return argument.first == parameters[i]; });
    const std::size_t first_default = parameters.size() - defaults.size();
    Value value = undefined(parameters[i]);
    if (i < args.positional.size()) {
      value = args.positional[i];
    } else if (named != args.named.end()) {
      value = named->second;
      ++used;
    } else if (i >= first_default) {
      QUIRE_TRY(value, evaluate(*defaults[i - first_default]));
    }
    inner.variables[parameters[i]] = std::move(value);
  }
  if (used < args.positional.size() + args.named.size()) {
    return fail(Errc::bad_file, "the macro '{}' is given a name it does not have, or has twice", macro.name);
  }
  TextBuilder out(budget_);
  QUIRE_TRY([[maybe_unused]] const Flow flow, run(*macro.macro->body, out));
  return text(out.take());
}

Result<Value> Interpreter::make_namespace(const Args& args) {
  QUIRE_TRY(const Value initial, find_function("dict")(args, budget_));
  auto made = std::make_unique<Namespace>();
  if (const Dict* d = initial.dict()) {
    for (const auto& [key, value] : d->entries) {
      if (key.text()) made->attributes[*key.text()] = value;
    }
  }
  namespaces_.push_back(std::move(made));
  return Value{namespaces_.back().get()};
}

}  // namespace quire::jinja
