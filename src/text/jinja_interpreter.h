// Runs a parsed template.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "quire/result.h"
#include "text/jinja_ast.h"
#include "text/jinja_builtins.h"
#include "text/jinja_value.h"

namespace quire::jinja {

class Interpreter {
 public:
  // The template and the variables must outlive the interpreter.
  Interpreter(const Dict& variables, int max_depth, Budget& budget)
      : variables_(variables), max_depth_(max_depth), budget_(budget) {}

  Result<std::string> render(const Block& body);

 private:
  // Variables set by the template; names live in the syntax tree.
  struct Scope {
    const Scope* parent;
    std::unordered_map<std::string_view, Value> variables = {};
  };
  // Makes a scope current for as long as it lives.
  class Enter;
  class Deeper;
  enum class Flow { next, break_loop, continue_loop };

  Result<Flow> run(const Block& block, TextBuilder& out);
  Result<Flow> run(const Stmt& statement, TextBuilder& out);
  Result<Flow> run_if(const Stmt& statement, TextBuilder& out);
  Result<Flow> run_for(const Stmt& statement, TextBuilder& out);
  Result<Flow> run_with(const Stmt& statement, TextBuilder& out);
  Result<void> run_set(const Stmt& statement);
  Result<void> run_set_block(const Stmt& statement, TextBuilder* out);
  Result<void> assign(const Target& target, Value value);
  Result<std::vector<Value>> loop_items(const Stmt& statement);

  Result<Value> evaluate(const Expr& e);
  Result<Value> evaluate_deep(const Expr& e);
  Result<Value> evaluate_or_none(const ExprPtr& e);
  Result<Value> evaluate_dict(const Expr& e);
  Result<Value> evaluate_slice(const Expr& e);
  Result<Value> evaluate_chain(const Expr& e);
  Result<Value> evaluate_compare(const Expr& e);
  Result<Value> evaluate_conditional(const Expr& e);
  Result<Value> evaluate_call(const Expr& e);
  Result<std::vector<Value>> evaluate_all(const std::vector<ExprPtr>& parts, std::size_t from);
  Result<Args> evaluate_arguments(const Expr& e);
  Result<Value> apply_filter(const Expr& e);

  Result<Value> call_macro(const Callable& macro, const Args& args);
  Result<Value> make_namespace(const Args& args);
  Value look_up(std::string_view name);

  const Dict& variables_;
  int max_depth_;
  Budget& budget_;
  Scope root_{nullptr};
  Scope* scope_ = &root_;
  std::vector<std::unique_ptr<Namespace>> namespaces_;
  const Value* filtered_ = nullptr;  // what a filter without a subject applies to
  int depth_ = 0;
  bool located_ = false;  // the error on its way out already names its line
};

}  // namespace quire::jinja
