#include "text/chat_template.h"

#include <gtest/gtest.h>

#include <chrono>
#include <ctime>
#include <fstream>
#include <string>

namespace quire {
namespace {

Json load(const std::string& name) {
  std::ifstream file(std::string(QUIRE_TEST_DATA) + "/chat_templates/" + name);
  return Json::parse(file, nullptr, false);
}

Result<std::string> render(const std::string& source, const Json& context = Json::object(),
                           const RenderLimits& limits = {}) {
  auto parsed = ChatTemplate::parse(source);
  if (!parsed.ok()) return parsed.error();
  return parsed->render(context, limits);
}

std::string message(const Result<std::string>& result) {
  return result.ok() ? "no error: " + *result : result.error().message;
}

// Null stands for an error in Jinja2; only that it is one must agree.
void expect_same(const Json& expected, const Result<std::string>& got, const std::string& what) {
  if (expected.is_null()) {
    EXPECT_FALSE(got.ok()) << what << "\ngave: " << *got;
    return;
  }
  ASSERT_TRUE(got.ok()) << what << "\n" << got.error().message;
  EXPECT_EQ(*got, expected.get<std::string>()) << what;
}

TEST(ChatTemplate, LanguageAgreesWithJinja2) {
  const Json data = load("language.json");
  ASSERT_TRUE(data.is_object());
  ASSERT_GT(data["cases"].size(), 600u);
  for (const Json& c : data["cases"]) {
    const std::string source = c["template"].get<std::string>();
    expect_same(c["expected"], render(source, data["context"]), source);
  }
}

TEST(ChatTemplate, ModelShapesAgreeWithJinja2) {
  const Json data = load("shapes.json");
  ASSERT_TRUE(data.is_object());
  ASSERT_GT(data["cases"].size(), 150u);
  for (const Json& c : data["cases"]) {
    const std::string name = c["template"].get<std::string>(), context = c["context"].get<std::string>();
    expect_same(c["expected"], render(data["templates"][name].get<std::string>(), data["contexts"][context]),
                name + " on " + context);
  }
}

TEST(ChatTemplate, ErrorsNameTheLine) {
  EXPECT_EQ(message(render("one\ntwo {{ 1 + }}")), "[chat template] line 2: a tag ends too early");
  EXPECT_EQ(message(render("one\n\n{{ missing.x }}")), "[chat template] line 3: 'missing' is undefined");
  EXPECT_EQ(message(render("{% if x %}\nnever closed")), "[chat template] line 1: the template ends before 'endif'");
  EXPECT_EQ(message(render("{% for x in [1] %}\n{% if x %}\n{{ 1 / 0 }}{% endif %}{% endfor %}")),
            "[chat template] line 3: division by zero");
}

TEST(ChatTemplate, RefusalsOfTheTemplateAreToldApartFromItsFaults) {
  const auto refused = render("{{ raise_exception('roles\nmust alternate') }}");
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, Errc::invalid_argument);
  EXPECT_EQ(refused.error().message,
            "[chat template] line 1: the template refuses these messages: roles must alternate");
  EXPECT_EQ(render("{{ x.y.z }}").error().code, Errc::bad_file);
  EXPECT_EQ(render("{{ 1|nosuch }}").error().code, Errc::unsupported);
  EXPECT_EQ(render("{% include 'x' %}").error().code, Errc::unsupported);
}

TEST(ChatTemplate, ContextMustBeAnObject) {
  EXPECT_EQ(render("x", Json::array()).error().code, Errc::invalid_argument);
  Json deep = 1;
  for (int i = 0; i < 1000; ++i) deep = Json::array({std::move(deep)});
  EXPECT_EQ(render("x", Json{{"messages", std::move(deep)}}).error().code, Errc::invalid_argument);
}

TEST(ChatTemplate, ContextNumbersKeepTheirType) {
  const Json context = {{"i", 1}, {"f", 1.0}, {"big", 18446744073709551615u}, {"small", INT64_MIN}};
  EXPECT_EQ(*render("{{ i }} {{ f }} {{ big }} {{ small }}", context),
            "1 1.0 1.8446744073709552e+19 -9223372036854775808");
}

TEST(ChatTemplate, TodayComesFromTheClock) {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  localtime_r(&now, &local);
  char year[8];
  std::strftime(year, sizeof year, "%Y", &local);
  EXPECT_EQ(*render("{{ strftime_now('%Y') }}"), year);
  EXPECT_FALSE(render("{{ strftime_now('%99999999d') }}").ok());
}

TEST(ChatTemplate, IntegersDoNotOverflow) {
  for (const char* e : {"9223372036854775807 + 1", "-9223372036854775807 - 2", "4611686018427387904 * 2", "10 ** 30",
                        "-(-9223372036854775807 - 1)", "(-9223372036854775807 - 1) // -1", "9223372036854775808",
                        "(-9223372036854775807 - 1)|abs", "1e30|int", "'99999999999999999999'|int"}) {
    EXPECT_FALSE(render(std::string("{{ ") + e + " }}").ok()) << e;
  }
  EXPECT_EQ(*render("{{ (-9223372036854775807 - 1) % -1 }}"), "0");
  EXPECT_EQ(*render("{{ [1, 2, 3][-9223372036854775807:9223372036854775807:9223372036854775807] }}"), "[1]");
  EXPECT_EQ(*render("{{ range(9223372036854775806, 9223372036854775807, 5)|list }}"), "[9223372036854775806]");
}

TEST(ChatTemplate, BytesThatAreNotUtf8PassThrough) {
  const Json context = {{"s", "a\xFF\xC3z"}};
  EXPECT_EQ(*render("{{ s }}{{ s|length }}{{ s[::-1] }}", context),
            "a\xFF\xC3z4z\xC3\xFF"
            "a");
}

TEST(ChatTemplate, MacrosInsideLoopsAreRefusedRatherThanMisread) {
  EXPECT_FALSE(render("{% for x in [1] %}{% macro m() %}{{ x }}{% endmacro %}{{ m() }}{% endfor %}").ok());
}

TEST(ChatTemplate, ValuesSurviveTheScopeTheyCameFrom) {
  EXPECT_EQ(*render("{% set ns = namespace(l=none) %}{% for x in 'abc' %}{% set ns.l = loop %}{% endfor %}"
                    "{{ ns.l.length }}{{ ns.l.cycle is defined }}"),
            "3True");
  EXPECT_EQ(*render("{% set ns = namespace() %}{% set ns.self = ns %}{% set ns.x = 1 %}{{ ns.self.self.x }}"), "1");
  EXPECT_FALSE(render("{% set ns = namespace() %}{% set ns.self = ns %}{{ ns }}").ok());
}

// --- Hostile templates: each must end in an error, and soon. ---

std::string repeat(const std::string& s, int count) {
  std::string out;
  for (int i = 0; i < count; ++i) out += s;
  return out;
}

struct Hostile {
  const char* name;
  std::string source;
};

TEST(ChatTemplate, HostileTemplatesEndQuicklyInAnError) {
  const std::string doubling = "{% set ns = namespace(x='ab') %}{% for i in range(100) %}";
  const Hostile cases[] = {
      {"parentheses", "{{ " + repeat("(", 100'000)},
      {"closed parentheses", "{{ " + repeat("(", 50'000) + "1" + repeat(")", 50'000) + " }}"},
      {"brackets", "{{ " + repeat("[", 100'000)},
      {"braces", "{{ " + repeat("{1:", 100'000)},
      {"not", "{{ " + repeat("not ", 100'000) + "1 }}"},
      {"signs", "{{ " + repeat("-", 100'000) + "1 }}"},
      {"conditionals", "{{ " + repeat("1 if 1 else ", 50'000) + "1 }}"},
      {"conditions", "{{ 1 " + repeat("if 1 ", 50'000) + " }}"},
      {"attributes", "{{ x" + repeat(".a", 100'000) + " }}"},
      {"filters", "{{ x" + repeat("|string", 100'000) + " }}"},
      {"tests", "{{ x" + repeat(" is defined", 50'000) + " }}"},
      {"calls", "{{ x" + repeat("()", 100'000) + " }}"},
      {"blocks", repeat("{% if 1 %}", 50'000)},
      {"closed blocks", repeat("{% if 1 %}", 20'000) + repeat("{% endif %}", 20'000)},
      {"targets", "{% set " + repeat("(", 50'000) + "a = 1 %}"},
      {"open comments", repeat("{#", 100'000)},
      {"open raw blocks", repeat("{% raw %}", 50'000)},
      {"too long", std::string((std::size_t{256} << 10) + 1, ' ')},
      {"nested loops", repeat("{% for x in range(100000) %}", 5) + "x" + repeat("{% endfor %}", 5)},
      {"empty nested loops", repeat("{% for x in range(100000) %}", 5) + repeat("{% endfor %}", 5)},
      {"repeated text", "{{ 'a' * 1000000000 }}"},
      {"repeated longer text", "{{ 'ab' * 4611686018427387904 }}"},
      {"repeated list", "{{ ([1, 2] * 1000000000)|length }}"},
      {"repeated empty texts", "{% for i in range(100000) %}{{ ([''] * 100000)|join }}{% endfor %}"},
      {"text doubling", doubling + "{% set ns.x = ns.x + ns.x %}{% endfor %}"},
      {"text doubling by ~", doubling + "{% set ns.x = ns.x ~ ns.x %}{% endfor %}"},
      {"text doubling by replace", doubling + "{% set ns.x = ns.x|replace('', ns.x) %}{% endfor %}"},
      {"text doubling by join", doubling + "{% set ns.x = ns.x|join(ns.x) %}{% endfor %}"},
      {"text doubling by format", doubling + "{% set ns.x = '{0}{0}'.format(ns.x) %}{% endfor %}"},
      {"text doubling by percent", doubling + "{% set ns.x = '%s%s' % (ns.x, ns.x) %}{% endfor %}"},
      {"list doubling",
       "{% set ns = namespace(x=[1]) %}{% for i in range(100) %}{% set ns.x = ns.x + ns.x %}{% endfor %}"},
      {"nested values", "{% set ns = namespace(x=1) %}{% for i in range(9999) %}{% set ns.x = [ns.x] %}{% endfor %}"},
      {"nested loops objects",
       "{% set ns = namespace(x=1) %}{% for i in range(9999) %}{% for j in [ns.x] %}{% set ns.x = loop %}{% endfor "
       "%}{% endfor %}"},
      {"shared values printed",
       "{% set ns = namespace(x=1) %}{% for i in range(60) %}{% set ns.x = [ns.x, ns.x] %}{% endfor %}{{ ns.x }}"},
      {"shared values as JSON",
       "{% set ns = namespace(x=1) %}{% for i in range(60) %}{% set ns.x = [ns.x, ns.x] %}{% endfor %}{{ ns.x|tojson "
       "}}"},
      {"shared values compared",
       "{% set ns = namespace(x=1, y=1) %}{% for i in range(60) %}{% set ns.x = [ns.x, ns.x] %}{% set ns.y = [ns.y, "
       "ns.y] %}"
       "{% endfor %}{{ ns.x == ns.y }}"},
      {"shared tuples as keys",
       "{% set ns = namespace(x=1, y=1) %}{% for i in range(60) %}{% set ns.x = (ns.x, ns.x) %}{% set ns.y = (ns.y, "
       "ns.y) %}"
       "{% endfor %}{{ {ns.x: 1, ns.y: 2} }}"},
      {"range", "{{ range(1000000000)|list }}"},
      {"huge range", "{{ range(-9223372036854775807, 9223372036854775807) }}"},
      {"indent", "{{ 'a\nb'|indent(1000000000) }}"},
      {"JSON indent", "{{ [[[[1]]]]|tojson(indent='" + std::string(100'000, 'x') + "') * 50 }}"},
      {"format width", "{{ '%999999999d' % 1 }}"},
      {"batch", "{{ [1]|batch(1000000000, 0)|list }}"},
      {"recursive macro", "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}"},
      {"branching macro", "{% macro m(n) %}{% if n %}{{ m(n - 1) }}{{ m(n - 1) }}{% endif %}{% endmacro %}{{ m(40) }}"},
      {"many dict entries",
       "{% for i in range(99999) %}{% set x = dict(range(9999)|map('string')|map('list')) %}{% endfor %}"},
      {"repeated search",
       "{% set a = 'a' * 4000000 %}{% for i in range(100000) %}{% set x = a ~ 'b' in a %}{% endfor %}"},
      {"repeated comparison",
       "{% set a = 'a' * 4000000 %}{% set b = 'a' * 4000000 %}{% for i in range(99999) %}{% if a == b %}"
       "{% endif %}{% endfor %}"},
      {"repeated length", "{% set a = 'a' * 4000000 %}{% for i in range(99999) %}{% set x = a|length %}{% endfor %}"},
      {"repeated split", "{% set a = 'a ' * 90000 %}{% for i in range(99999) %}{% set x = a.split() %}{% endfor %}"},
      {"repeated repr", "{% set a = 'a' * 4000000 %}{% for i in range(99999) %}{% set x = [a]|string %}{% endfor %}"},
      {"repeated strip",
       "{% set a = 'a' * 4000000 %}{% for i in range(99999) %}{% set x = 'b'.strip(a) %}{% endfor %}"},
      {"repeated path", "{% set a = 'a' * 4000000 %}{{ ([{}] * 90000)|map(attribute=a)|list }}"},
      {"repeated number",
       "{% set a = '1' * 4000000 ~ 'x' %}{% for i in range(99999) %}{% set x = a|int %}{% endfor %}"},
      {"repeated prefixes",
       "{% set a = ('b',) * 90000 %}{% for i in range(99999) %}{% set x = 'c'.startswith(a) %}{% endfor %}"},
      {"repeated missing key",
       "{% set a = 'a' * 4000000 %}{% for i in range(99999) %}{% set x = {}[a ~ i] %}{% endfor %}"},
      {"sorting", "{% for i in range(99999) %}{% set x = range(50000)|sort(reverse=true) %}{% endfor %}"},
      {"unique", "{{ range(100000)|unique|list|length }}"},
  };
  for (const Hostile& hostile : cases) {
    const auto start = std::chrono::steady_clock::now();
    const auto result = render(hostile.source);
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    EXPECT_FALSE(result.ok()) << hostile.name;
    // Generous, for builds with sanitizers on busy machines; each takes well under a second.
    EXPECT_LT(seconds, 30.0) << hostile.name;
  }
}

TEST(ChatTemplate, SearchIsLinearInBothStrings) {
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(*render("{{ ('a' * 1000000 ~ 'b') in ('a' * 2000000) }}{{ ('a' * 2000000).rfind('b' ~ 'a' * 1000000) }}"
                    "{{ ('a' * 2000000).replace('a' * 500000 ~ 'b', '')|length }}"),
            "False-12000000");
  // Quadratic search would take 10^12 steps.
  EXPECT_LT(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(), 30.0);
}

TEST(ChatTemplate, LimitsAreTheCallers) {
  const std::string loop = "{% for i in range(1000) %}x{% endfor %}";
  EXPECT_EQ(render(loop)->size(), 1000u);
  EXPECT_EQ(message(render(loop, Json::object(), {.steps = 500})),
            "[chat template] line 1: the template takes too many steps");
  EXPECT_EQ(message(render(loop, Json::object(), {.output_bytes = 999})),
            "[chat template] line 1: the template makes too long a text");
  EXPECT_TRUE(render(loop, Json::object(), {.output_bytes = 1000}).ok());
  EXPECT_EQ(message(render("{{ [[[[1]]]] }}", Json::object(), {.depth = 4})),
            "[chat template] line 1: the template recurses too deeply");
}

TEST(ChatTemplate, LongConversationsFitTheDefaultLimits) {
  Json messages = Json::array();
  for (int i = 0; i < 400; ++i) {
    messages.push_back({{"role", i % 2 ? "assistant" : "user"}, {"content", std::string(4000, 'x') + "</think>y"}});
  }
  const Json shapes = load("shapes.json");
  const auto got =
      render(shapes["templates"]["thinking_tools"].get<std::string>(), Json{{"messages", std::move(messages)}});
  ASSERT_TRUE(got.ok()) << got.error().message;
  EXPECT_GT(got->size(), 800'000u);
}

}  // namespace
}  // namespace quire
