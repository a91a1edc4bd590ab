#include <algorithm>
#include <charconv>

#include "core/fail.h"
#include "text/jinja_builtins.h"
#include "text/jinja_operators.h"
#include "text/jinja_text.h"

namespace quire::jinja {
namespace {

using Items = std::vector<Value>;

// What values are compared by: a path into them, with capitals and small letters alike unless asked.
Result<Value> sort_key(const Value& v, const Value* path, bool case_sensitive, Budget& budget) {
  Value key = v;
  if (given(path)) {
    QUIRE_TRY(key, get_path(v, *path, nullptr, budget));
  }
  if (case_sensitive || !key.text()) return key;
  budget.spend_bytes(key.text()->size());
  return text(lower(*key.text()));
}

struct Keyed {
  Value key;
  Value value;
};

// A stable merge sort: unlike std::sort it may be given a comparison that fails, or one that is no
// order at all because of NaNs.
Result<void> merge_sort(std::vector<Keyed>& items, bool reverse, Budget& budget) {
  std::vector<Keyed> merged(items.size());
  for (std::size_t width = 1; width < items.size(); width *= 2) {
    for (std::size_t begin = 0; begin < items.size(); begin += 2 * width) {
      const std::size_t middle = std::min(begin + width, items.size()), end = std::min(begin + 2 * width, items.size());
      std::size_t left = begin, right = middle;
      for (std::size_t out = begin; out < end; ++out) {
        bool take_right = left == middle;
        if (!take_right && right < end) {
          if (!budget.spend(1)) return budget.error();
          QUIRE_TRY(const auto ordering, order(items[right].key, items[left].key, budget));
          take_right = reverse ? ordering > 0 : ordering < 0;
        }
        merged[out] = items[take_right ? right++ : left++];
      }
    }
    items.swap(merged);
  }
  return {};
}

Result<Items> sorted(Items items, const Value* path, bool case_sensitive, bool reverse, Budget& budget) {
  std::vector<Keyed> keyed;
  for (Value& v : items) {
    QUIRE_TRY(Value key, sort_key(v, path, case_sensitive, budget));
    keyed.push_back({std::move(key), std::move(v)});
  }
  QUIRE_CHECK_OK(merge_sort(keyed, reverse, budget));
  items.clear();
  for (Keyed& k : keyed) items.push_back(std::move(k.value));
  return items;
}

bool flag(const Value* v) { return v && truthy(*v); }

Result<Value> sort(const Value& v, const Args& args, Budget& budget) {
  QUIRE_TRY(const Bound bound, bind("sort", args, {"reverse", "case_sensitive", "attribute"}));
  QUIRE_TRY(Items items, iterate(v, budget));
  QUIRE_TRY(items, sorted(std::move(items), bound[2], flag(bound[1]), flag(bound[0]), budget));
  return list(std::move(items), budget);
}

Result<Value> dictsort(const Value& v, const Args& args, Budget& budget) {
  QUIRE_TRY(const Bound bound, bind("dictsort", args, {"case_sensitive", "by", "reverse"}));
  if (!v.dict()) return v.is<Undefined>() ? undefined_error(v) : fail(Errc::bad_file, "dictsort needs a dict");
  const bool by_value = bound[1] && bound[1]->text() && *bound[1]->text() == "value";
  QUIRE_TRY(const Value pairs, call_method(v, "items", {}, budget));
  QUIRE_TRY(Items items, iterate(pairs, budget));
  const Value position = integer(by_value ? 1 : 0);
  QUIRE_TRY(items, sorted(std::move(items), &position, flag(bound[0]), flag(bound[2]), budget));
  return list(std::move(items), budget);
}

Result<Value> extreme(const Value& v, const Args& args, bool largest, Budget& budget) {
  QUIRE_TRY(const Bound bound, bind(largest ? "max" : "min", args, {"case_sensitive", "attribute"}));
  QUIRE_TRY(const Items items, iterate(v, budget));
  if (items.empty()) return undefined();
  Value best = items[0];
  QUIRE_TRY(Value best_key, sort_key(best, bound[1], flag(bound[0]), budget));
  for (std::size_t i = 1; i < items.size(); ++i) {
    QUIRE_TRY(Value key, sort_key(items[i], bound[1], flag(bound[0]), budget));
    QUIRE_TRY(const auto ordering, order(key, best_key, budget));
    if (!(largest ? ordering > 0 : ordering < 0)) continue;
    best = items[i];
    best_key = std::move(key);
  }
  return best;
}

Result<Value> sum(const Value& v, const Args& args, Budget& budget) {
  QUIRE_TRY(const Bound bound, bind("sum", args, {"attribute", "start"}));
  QUIRE_TRY(const Items items, iterate(v, budget));
  Value total = bound[1] ? *bound[1] : integer(0);
  if (total.text()) return fail(Errc::bad_file, "sum cannot add strings; use join");
  for (const Value& item : items) {
    Value part = item;
    if (given(bound[0])) {
      QUIRE_TRY(part, get_path(item, *bound[0], nullptr, budget));
    }
    QUIRE_TRY(total, arithmetic(Operator::add, total, part, budget));
  }
  return total;
}

Result<Value> unique(const Value& v, const Args& args, Budget& budget) {
  QUIRE_TRY(const Bound bound, bind("unique", args, {"case_sensitive", "attribute"}));
  QUIRE_TRY(const Items items, iterate(v, budget));
  Items seen, out;
  for (const Value& item : items) {
    if (!budget.spend(1)) return budget.error();
    QUIRE_TRY(Value key, sort_key(item, bound[1], flag(bound[0]), budget));
    if (!hashable(key)) return fail(Errc::bad_file, "unique does not work on {}", type_name(key));
    if (std::any_of(seen.begin(), seen.end(), [&](const Value& s) { return equal(s, key, budget); })) continue;
    seen.push_back(std::move(key));
    out.push_back(item);
  }
  return generator(std::move(out), budget);
}

Result<Value> first(const Value& v, const Args&, Budget& budget) {
  QUIRE_TRY(const Items items, iterate(v, budget));
  return items.empty() ? undefined() : items.front();
}

Result<Value> last(const Value& v, const Args&, Budget& budget) {
  if (v.sequence() && v.sequence()->kind == SequenceKind::generator) {
    return fail(Errc::bad_file, "last does not work on the result of a filter; use |list first");
  }
  if (v.is<Undefined>()) return undefined_error(v);
  QUIRE_TRY(const Items items, iterate(v, budget));
  return items.empty() ? undefined() : items.back();
}

Result<Value> reverse(const Value& v, const Args&, Budget& budget) {
  if (v.text()) return get_slice(v, none(), none(), integer(-1), budget);
  QUIRE_TRY(Items items, iterate(v, budget));
  std::reverse(items.begin(), items.end());
  const bool rebuilt = v.is<Undefined>() || (v.sequence() && v.sequence()->kind == SequenceKind::generator);
  return sequence(std::move(items), rebuilt ? SequenceKind::list : SequenceKind::generator, budget);
}

Result<Value> to_list(const Value& v, const Args&, Budget& budget) {
  QUIRE_TRY(Items items, iterate(v, budget));
  return list(std::move(items), budget);
}

Result<Value> items_filter(const Value& v, const Args&, Budget& budget) {
  if (v.is<Undefined>()) return generator({}, budget);
  if (!v.dict()) return fail(Errc::bad_file, "items needs a dict, not {}", type_name(v));
  QUIRE_TRY(const Value pairs, call_method(v, "items", {}, budget));
  return generator(pairs.sequence() ? pairs.sequence()->items : Items{}, budget);
}

Result<Value> join(const Value& v, const Args& args, Budget& budget) {
  QUIRE_TRY(const Bound bound, bind("join", args, {"d", "attribute"}));
  QUIRE_TRY(const Items items, iterate(v, budget));
  std::string separator;
  if (bound[0]) {
    QUIRE_TRY(separator, to_str(*bound[0], budget));
  }
  TextBuilder out(budget);
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (i > 0) out.append(separator);
    Value item = items[i];
    if (given(bound[1])) {
      QUIRE_TRY(item, get_path(item, *bound[1], nullptr, budget));
    }
    QUIRE_CHECK_OK(write_str(item, out));
  }
  return text(out.take());
}

Args without_first(const Args& args, std::size_t count) {
  return {{args.positional.begin() + static_cast<std::ptrdiff_t>(count), args.positional.end()}, args.named};
}

Result<Value> map(const Value& v, const Args& args, Budget& budget) {
  Items out;
  if (!truthy(v)) return generator({}, budget);
  QUIRE_TRY(const Items items, iterate(v, budget));
  if (args.positional.empty()) {
    QUIRE_TRY(const Bound bound, bind("map", args, {"attribute", "default"}, 1));
    for (const Value& item : items) {
      QUIRE_TRY(Value mapped, get_path(item, *bound[0], bound[1], budget));
      out.push_back(std::move(mapped));
    }
  } else {
    QUIRE_TRY(const std::string_view name, need_text(&args.positional[0], "map"));
    const Args rest = without_first(args, 1);
    for (const Value& item : items) {
      if (!budget.spend(1)) return budget.error();
      QUIRE_TRY(Value mapped, call_filter(name, item, rest, budget));
      out.push_back(std::move(mapped));
    }
  }
  return generator(std::move(out), budget);
}

// select, reject, and the same by an attribute.
template <bool Keep, bool ByAttribute>
Result<Value> choose(const Value& v, const Args& args, Budget& budget) {
  if (!truthy(v)) return generator({}, budget);
  constexpr std::size_t kTest = ByAttribute ? 1 : 0;
  if (args.positional.size() < kTest) return fail(Errc::bad_file, "selectattr needs the name of an attribute");
  const bool has_test = args.positional.size() > kTest;
  const Args rest = without_first(args, kTest + (has_test ? 1 : 0));
  QUIRE_TRY(const Items items, iterate(v, budget));
  Items out;
  for (const Value& item : items) {
    // NOLINTNEXTLINE(performance-unnecessary-copy-initialization): replaced below where ByAttribute is set
    Value subject = item;
    if constexpr (ByAttribute) {
      QUIRE_TRY(subject, get_path(item, args.positional[0], nullptr, budget));
    }
    bool passes = truthy(subject);
    if (has_test) {
      QUIRE_TRY(const std::string_view name, need_text(&args.positional[kTest], "select"));
      QUIRE_TRY(passes, call_test(name, subject, rest, budget));
    }
    if (passes == Keep) out.push_back(item);
  }
  return generator(std::move(out), budget);
}

Result<Value> batch(const Value& v, const Args& args, Budget& budget) {
  QUIRE_TRY(const Bound bound, bind("batch", args, {"linecount", "fill_with"}, 1));
  QUIRE_TRY(const std::int64_t wanted, integer_or(bound[0], 1, "batch"));
  QUIRE_TRY(const Items items, iterate(v, budget));
  if (wanted < 1) return fail(Errc::bad_file, "batch needs a size of at least 1");
  const auto size = static_cast<std::size_t>(wanted);
  Items out;
  for (std::size_t begin = 0; begin < items.size(); begin += std::min(size, items.size() - begin)) {
    const auto from = items.begin() + static_cast<std::ptrdiff_t>(begin);
    Items row(from, from + static_cast<std::ptrdiff_t>(std::min(size, items.size() - begin)));
    if (given(bound[1]) && budget.spend(size - row.size())) row.resize(size, *bound[1]);
    out.push_back(list(std::move(row), budget));
  }
  return generator(std::move(out), budget);
}

constexpr NamedFilter kFilters[] = {
    {"batch", batch},
    {"dictsort", dictsort},
    {"first", first},
    {"items", items_filter},
    {"join", join},
    {"last", last},
    {"list", to_list},
    {"map", map},
    {"max", [](const Value& v, const Args& args, Budget& budget) { return extreme(v, args, true, budget); }},
    {"min", [](const Value& v, const Args& args, Budget& budget) { return extreme(v, args, false, budget); }},
    {"reject", choose<false, false>},
    {"rejectattr", choose<false, true>},
    {"reverse", reverse},
    {"select", choose<true, false>},
    {"selectattr", choose<true, true>},
    {"sort", sort},
    {"sum", sum},
    {"unique", unique},
};

}  // namespace

Filter find_sequence_filter(std::string_view name) {
  for (const NamedFilter& f : kFilters) {
    if (f.name == name) return f.filter;
  }
  return nullptr;
}

Result<Value> get_path(const Value& subject, const Value& path, const Value* fallback, Budget& budget) {
  if (!path.text()) return get_item(subject, path, budget);
  Value v = subject;
  std::string_view rest = *path.text();
  budget.spend_bytes(rest.size());
  for (;;) {
    const std::size_t dot = std::min(rest.find('.'), rest.size());
    const std::string_view part = rest.substr(0, dot);
    std::int64_t index = 0;
    const auto [stop, error] = std::from_chars(part.data(), part.data() + part.size(), index);
    const bool number = error == std::errc() && stop == part.data() + part.size() && index >= 0;
    if (!budget.spend(1)) return budget.error();
    QUIRE_TRY(v, get_item(v, number ? integer(index) : text(part), budget));
    if (given(fallback) && v.is<Undefined>()) v = *fallback;
    if (dot == rest.size()) return v;
    rest.remove_prefix(dot + 1);
  }
}

}  // namespace quire::jinja
