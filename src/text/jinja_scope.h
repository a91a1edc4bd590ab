// Guards of the interpreter, for its own two files.
#pragma once

#include "text/jinja_interpreter.h"

namespace quire::jinja {

class Interpreter::Enter {
 public:
  Enter(Interpreter& interpreter, Scope& scope) : interpreter_(interpreter), outer_(interpreter.scope_) {
    interpreter_.scope_ = &scope;
  }
  ~Enter() { interpreter_.scope_ = outer_; }
  Enter(const Enter&) = delete;
  Enter& operator=(const Enter&) = delete;

 private:
  Interpreter& interpreter_;
  Scope* outer_;
};

// One more level of recursion, and one step.
class Interpreter::Deeper {
 public:
  explicit Deeper(Interpreter& interpreter) : interpreter_(interpreter) {
    if (++interpreter_.depth_ > interpreter_.max_depth_)
      interpreter_.budget_.exhaust("the template recurses too deeply");
    interpreter_.budget_.spend(1);
  }
  ~Deeper() { --interpreter_.depth_; }
  Deeper(const Deeper&) = delete;
  Deeper& operator=(const Deeper&) = delete;

 private:
  Interpreter& interpreter_;
};

}  // namespace quire::jinja
