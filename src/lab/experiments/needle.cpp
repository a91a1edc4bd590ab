#include "lab/experiments/needle.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <random>

namespace quire::lab {
namespace {

Tokens without_bos(const Model& model, const std::string& text) {
  Tokens tokens = model.tokenize(text);
  if (model.adds_bos() && !tokens.empty()) tokens.erase(tokens.begin());
  return tokens;
}

}  // namespace

bool Needle::answered_by(std::string_view text) const {
  const std::size_t begin = text.find_first_not_of(' ');
  return begin != std::string_view::npos && text.substr(begin).starts_with(code);
}

bool Needle::undecided(std::string_view text) const {
  const std::size_t begin = std::min(text.find_first_not_of(' '), text.size());
  const std::string_view said = text.substr(begin);
  return said.size() < code.size() && std::string_view(code).starts_with(said);
}

Needle plant_needle(const Workbench& bench, std::int64_t length, int parts, int number) {
  constexpr std::array<const char*, 8> kColours{"red", "blue", "green", "yellow", "black", "white", "silver", "purple"};
  constexpr std::array<const char*, 8> kThings{"lamp", "door", "box", "chair", "boat", "clock", "tower", "wagon"};
  std::mt19937_64 random(static_cast<std::uint64_t>(number) + 1);
  const std::string thing =
      fmt::format("{} {}", kColours[random() % kColours.size()], kThings[random() % kThings.size()]);
  Needle needle{{}, fmt::format("{:05}", random() % 100000), number % parts};
  const Model& model = *bench.model();
  const Tokens fact = without_bos(model, fmt::format(" The code of the {} is {}. Remember it: the {} has the code {}.",
                                                     thing, needle.code, thing, needle.code));
  const Tokens question = without_bos(
      model, fmt::format("\n\nQuestion: What is the code of the {}?\nAnswer: The code of the {} is ", thing, thing));
  const std::int64_t hay =
      std::max<std::int64_t>(length - std::ssize(fact) - std::ssize(question), std::int64_t{2} * parts);
  needle.prompt = bench.prompt(static_cast<std::int64_t>(random() % 8000), hay);
  const std::int64_t part = hay / parts;
  const std::int64_t at =
      1 + needle.part * part + static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(part));
  needle.prompt.insert(needle.prompt.begin() + std::min(at, hay), fact.begin(), fact.end());
  needle.prompt.insert(needle.prompt.end(), question.begin(), question.end());
  // A tokenizer that cuts words into letters leaves little room for the rest.
  const std::int64_t over = std::ssize(needle.prompt) - length;
  if (over > 0) needle.prompt.erase(needle.prompt.begin(), needle.prompt.begin() + over);
  return needle;
}

}  // namespace quire::lab
