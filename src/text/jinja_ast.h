// The syntax tree of a template. Its height is limited when it is built, so that walking it or
// destroying it cannot exhaust the stack.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "text/jinja_value.h"

namespace quire::jinja {

inline constexpr int kMaxTreeHeight = 100;

enum class Operator {
  add,
  sub,
  mul,
  div,
  floor_div,
  mod,
  pow,
  concat,
  eq,
  ne,
  lt,
  le,
  gt,
  ge,
  in,
  not_in,
  logical_and,
  logical_or
};

struct Expr;
using ExprPtr = std::unique_ptr<const Expr>;

struct Expr {
  enum class Kind {
    constant,     // value
    name,         // name
    list,         // parts
    tuple,        // parts
    dict,         // parts: key, value, key, value...
    attribute,    // parts[0].name
    item,         // parts[0][parts[1]]
    slice,        // parts[0][parts[1]:parts[2]:parts[3]], null where absent
    call,         // parts[0](parts[1...], named..., *star, **star_star)
    filter,       // parts[0] | name(as a call); in a filter block parts[0] is null
    test,         // parts[0] is name(as a call)
    negate,       // -parts[0]
    plus,         // +parts[0]
    logical_not,  // not parts[0]
    chain,        // parts joined from the left by operators
    compare,      // parts joined as Python chains comparisons
    conditional,  // parts[0] if parts[1] else parts[2], which may be null
  };
  Kind kind;
  int line;
  std::string name = {};
  Value value = {};
  std::vector<ExprPtr> parts = {};
  std::vector<Operator> operators = {};  // operators[i] stands between parts[i] and parts[i + 1]
  std::vector<std::pair<std::string, ExprPtr>> named = {};
  ExprPtr star = nullptr;
  ExprPtr star_star = nullptr;
  int height = 1;
};

// What an assignment or a loop stores into.
struct Target {
  std::string name;
  std::string attribute;      // of a namespace, empty if the target is a plain name
  std::vector<Target> items;  // of a tuple; the name is then empty
  bool is_tuple = false;
};

struct Stmt;
using Block = std::vector<Stmt>;

struct MacroBody {
  std::vector<std::string> parameters;
  std::vector<ExprPtr> defaults;  // of the last parameters
  std::unique_ptr<const Block> body;
};

struct Stmt {
  enum class Kind {
    text,          // text
    output,        // exprs
    if_else,       // exprs[i] guards blocks[i]; one more block is the else
    for_loop,      // target in exprs[0] if exprs[1] (may be null): blocks[0], else blocks[1]
    set,           // target = exprs[0]
    set_block,     // target = blocks[0], through the filter exprs[0] (may be null)
    macro,         // text is its name
    filter_block,  // blocks[0] through the filter exprs[0]
    with,          // targets = exprs: blocks[0]
    pass_through,  // blocks[0]
    break_loop,
    continue_loop,
  };
  Kind kind;
  int line;
  std::string text = {};
  std::vector<ExprPtr> exprs = {};
  std::vector<Target> targets = {};
  std::vector<Block> blocks = {};
  std::unique_ptr<const MacroBody> macro = nullptr;
};

}  // namespace quire::jinja
