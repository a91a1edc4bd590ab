#include "lab/experiments/text_measures.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <random>
#include <set>
#include <vector>

namespace quire::lab {
namespace {

bool letter(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

std::vector<std::string> words(std::string_view text) {
  std::vector<std::string> all;
  for (std::size_t i = 0; i < text.size();) {
    const auto end = static_cast<std::size_t>(
        std::find_if_not(text.begin() + static_cast<std::ptrdiff_t>(i), text.end(), letter) - text.begin());
    if (end > i) all.emplace_back(text.substr(i, end - i));
    i = std::max(end, i + 1);
  }
  return all;
}

std::set<std::string> as_set(std::vector<std::string> all) { return {all.begin(), all.end()}; }

// Outside of quotes, every bracket is closed by its own kind, and the quotes close too.
bool closes(std::string_view line) {
  std::string open;
  char quote = 0;
  for (const char c : line) {
    if (quote != 0) {
      if (c == quote) quote = 0;
    } else if (c == '"' || c == '\'') {
      quote = c;
    } else if (c == '(' || c == '[' || c == '{') {
      open += c == '(' ? ')' : c == '[' ? ']' : '}';
    } else if (c == ')' || c == ']' || c == '}') {
      if (open.empty() || open.back() != c) return false;
      open.pop_back();
    }
  }
  return open.empty() && quote == 0;
}

}  // namespace

double repetition(std::string_view text) {
  const std::vector<std::string> all = words(text);
  std::set<std::array<std::string, 3>> seen;
  double runs = 0;
  for (std::size_t i = 0; i + 2 < all.size(); ++i, ++runs) seen.insert({all[i], all[i + 1], all[i + 2]});
  return runs > 0 ? 1 - static_cast<double>(seen.size()) / runs : 0;
}

double topic_overlap(std::string_view beginning, std::string_view text) {
  const std::set<std::string> known = as_set(words(beginning));
  double all = 0, shared = 0;
  for (const std::string& word : words(text)) {
    if (word.size() < 5) continue;
    ++all;
    shared += known.contains(word) ? 1 : 0;
  }
  return all > 0 ? shared / all : 0;
}

double valid_lines(std::string_view beginning, std::string_view code) {
  std::set<std::string> known = as_set(words(beginning));
  double lines = 0, valid = 0;
  for (std::size_t at = 0; at < code.size();) {
    const std::size_t end = code.find('\n', at);
    if (end == std::string_view::npos) break;
    const std::string_view line = code.substr(at, end - at);
    at = end + 1;
    const std::vector<std::string> names = words(line);
    if (names.empty()) continue;
    ++lines;
    // What stands before '=' or behind 'def' is new here.
    const std::size_t assigned = line.find('=');
    const bool defines = names.front() == "def";
    bool all_known = true;
    for (const std::string& name : words(assigned == std::string_view::npos ? line : line.substr(assigned))) {
      all_known =
          all_known && (defines || known.contains(name) || std::isdigit(static_cast<unsigned char>(name[0])) != 0);
    }
    valid += all_known && closes(line) ? 1 : 0;
    for (const std::string& name : names) known.insert(name);
  }
  return lines > 0 ? valid / lines : 0;
}

std::string made_code(std::size_t characters, unsigned seed) {
  constexpr std::array<const char*, 12> kVerbs{"load",  "count", "merge", "scale", "filter", "rank",
                                               "split", "join",  "shift", "round", "index",  "clean"};
  constexpr std::array<const char*, 12> kNouns{"rows",   "prices", "names",   "totals", "orders", "dates",
                                               "scores", "paths",  "weights", "cells",  "groups", "labels"};
  std::mt19937 random(seed);
  const auto any = [&](const auto& from) { return from[random() % from.size()]; };
  std::vector<std::string> functions;
  std::string code;
  while (code.size() < characters || functions.size() < 4) {
    const std::string name = fmt::format("{}_{}_{}", any(kVerbs), any(kNouns), functions.size());
    const std::string argument = any(kNouns);
    code += fmt::format("def {}({}):\n    result = []\n    for item in {}:\n", name, argument, argument);
    if (functions.empty()) {
      code += fmt::format("        result.append(item * {})\n", 2 + random() % 9);
    } else {
      code +=
          fmt::format("        result.append({}(item) + {})\n", functions[random() % functions.size()], random() % 90);
    }
    code += "    return result\n\n";
    functions.push_back(name);
  }
  return code + "def main(rows):\n    result = " + functions.front() + "(rows)\n";
}

}  // namespace quire::lab
