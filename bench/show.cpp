#include "show.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <string_view>
#include <thread>

#include "core/statistics.h"

namespace quire::bench {

Result<Engine> Setting::start(EngineOptions options) const {
  options.threads = threads;
  options.kernels = kernels;
  return Engine::create(model, options);
}

void Shown::require(const std::string& what, bool met) {
  bars_.push_back({{"what", what}, {"met", met}});
  met_ = met_ && met;
}

Json Shown::document() const {
  Json all = figures;
  all["bars"] = bars_;
  all["met"] = met_;
  return all;
}

void say(const std::string& line) {
  std::fputs((line + "\n").c_str(), stderr);
  std::fflush(stderr);
}

double fraction_below(std::vector<double> values, double fraction) {
  std::ranges::sort(values);
  return percentile(values, fraction);
}

double median(std::vector<double> values) { return fraction_below(std::move(values), 0.5); }

std::int64_t Dice::log_uniform(std::int64_t least, std::int64_t most) {
  constexpr std::int64_t kSteps = std::int64_t{1} << 40;
  const double share = static_cast<double>(below(kSteps)) / static_cast<double>(kSteps);
  const double low = static_cast<double>(least), high = static_cast<double>(most) + 1;
  return std::clamp(static_cast<std::int64_t>(low * std::pow(high / low, share)), least, most);
}

Tokens made_up(const Model& model, Dice& dice, std::int64_t count) {
  constexpr std::array<std::string_view, 12> kWhich{"old",   "quiet", "narrow", "bright", "second",  "broken",
                                                    "green", "heavy", "early",  "empty",  "distant", "plain"};
  constexpr std::array<std::string_view, 16> kWhat{"harbour", "clock",   "letter", "engine", "garden", "bridge",
                                                   "teacher", "river",   "window", "market", "signal", "library",
                                                   "captain", "orchard", "map",    "kitchen"};
  constexpr std::array<std::string_view, 10> kDoes{"faces",   "follows", "remembers", "repairs", "hides",
                                                   "crosses", "carries", "measures",  "opens",   "replaces"};
  constexpr std::array<std::string_view, 8> kWhen{"before noon",   "in the rain",      "every winter", "without a word",
                                                  "after the war", "near the station", "by accident",  "once a year"};
  const auto any = [&](const auto& words) { return words[static_cast<std::size_t>(dice.below(std::ssize(words)))]; };
  const auto wanted = static_cast<std::size_t>(count);
  std::string text;
  Tokens tokens;
  // A token is seldom longer than eight letters of such text.
  for (std::size_t letters = 8 * wanted + 64; tokens.size() < wanted; letters *= 2) {
    while (text.size() < letters) {
      text += fmt::format("The {} {} {} the {} {} {}. ", any(kWhich), any(kWhat), any(kDoes), any(kWhich), any(kWhat),
                          any(kWhen));
    }
    tokens = model.tokenize(text);
  }
  tokens.resize(wanted);
  return tokens;
}

Request greedy(Tokens tokens, std::int64_t count) {
  Request request;
  request.tokens = std::move(tokens);
  request.sampling.temperature = 0;
  request.max_tokens = count;
  request.ignore_end = true;
  return request;
}

Result<Completion> answer(Engine& engine, Request request) {
  QUIRE_TRY(Stream stream, engine.submit(std::move(request)));
  return stream.wait();
}

void wait_until_idle(const Engine& engine) {
  while (true) {
    const EngineStats stats = engine.stats();
    if (stats.running + stats.waiting == 0) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

}  // namespace quire::bench
