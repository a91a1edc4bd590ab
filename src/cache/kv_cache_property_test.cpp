// Random lives of a cache against an oracle that shares nothing (property/). RapidCheck makes the
// commands and, where something is wrong, shortens them.
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <sstream>

#include "cache/property/machine.h"

namespace quire::property {

void showValue(const Command& command, std::ostream& out) {
  out << '{' << int{command.what} << ',' << int{command.a} << ',' << int{command.b} << ',' << int{command.c} << '}';
}

void PrintTo(const Setup& setup, std::ostream* out) { *out << setup.name; }

namespace {

std::uint64_t number_from(const char* variable, std::uint64_t otherwise) {
  const char* const text = std::getenv(variable);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

rc::Gen<std::vector<Command>> commands() {
  const auto byte = rc::gen::resize(rc::kNominalSize, rc::gen::arbitrary<std::uint8_t>());
  const auto command = rc::gen::map(rc::gen::tuple(byte, byte, byte, byte), [](const auto& t) {
    return Command{std::get<0>(t), std::get<1>(t), std::get<2>(t), std::get<3>(t)};
  });
  constexpr int kMostCommands = 600;
  return rc::gen::resize(kMostCommands, rc::gen::container<std::vector<Command>>(command));
}

class KvCacheProperty : public testing::TestWithParam<Setup> {};
INSTANTIATE_TEST_SUITE_P(Setups, KvCacheProperty, testing::ValuesIn(all_setups()), [](const auto& param) {
  std::string name = param.param.name;
  std::erase(name, ',');
  std::ranges::replace(name, ' ', '_');
  return name;
});

TEST_P(KvCacheProperty, HoldsWhatTheOracleSays) {
  // All setups together do a million operations, or as many as the variable says.
  const std::uint64_t wanted = number_from("QUIRE_PROPERTY_OPERATIONS", 1'000'000) / all_setups().size() + 1;
  PageBytes bytes(layouts_of(GetParam()));
  std::uint64_t done = 0;
  rc::detail::TestParams params;
  // Every setup its own lives, the same in every run.
  params.seed = mix(number_from("QUIRE_PROPERTY_SEED", 1));
  for (const char letter : GetParam().name) params.seed = mix(params.seed + static_cast<Hash>(letter));
  params.maxSuccess = 10;
  params.disableShrinking = number_from("QUIRE_PROPERTY_SHRINK", 1) == 0;
  for (; done < wanted; ++params.seed) {
    const auto result = rc::detail::checkTestable(
        [&] {
          const std::vector<Command> chosen = *commands();
          Machine machine(GetParam(), bytes);
          const std::string wrong = machine.run(chosen);
          done += machine.operations();
          if (!wrong.empty()) RC_FAIL(wrong);
        },
        rc::detail::TestMetadata{}, params);
    if (!result.template is<rc::detail::SuccessResult>()) {
      std::ostringstream message;
      rc::detail::printResultMessage(result, message);
      FAIL() << message.str();
    }
  }
  RecordProperty("operations", std::to_string(done));
  std::cout << done << " operations\n";
  EXPECT_GE(done, wanted);
}

}  // namespace
}  // namespace quire::property
