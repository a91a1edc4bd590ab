#include "engine/chat_dialect.h"

#include <gtest/gtest.h>

#include <fstream>

namespace quire {
namespace {

ChatDialect dialect(const std::string& source) {
  auto parsed = ChatTemplate::parse(source);
  EXPECT_TRUE(parsed.ok());
  return ChatDialect(std::move(*parsed), "<s>", "</s>");
}

ChatDialect shape(const std::string& name) {
  std::ifstream file(std::string(QUIRE_TEST_DATA) + "/chat_templates/shapes.json");
  return dialect(Json::parse(file)["templates"][name].get<std::string>());
}

const std::string kTools = R"([{"type": "function", "function": {"name": "add", "parameters": {"type": "object"}}}])";
const std::vector<Message> kTalk{{"system", "Be brief."},
                                 {"user", "1 + 2?"},
                                 {"assistant", "", {{"abcdefghi", "add", R"({"a": 1, "b": 2})"}}},
                                 {"tool", "3", {}, "abcdefghi"}};

std::string render(const ChatDialect& with, std::span<const Message> messages, const ChatOptions& options) {
  auto text = with.render(messages, options, [](std::string_view said) { return std::string(said); });
  EXPECT_TRUE(text.ok()) << text.error().message;
  return text.ok() ? *text : "";
}

TEST(ChatDialect, TemplatesThatKnowToolsGetThem) {
  const ChatDialect hermes = shape("thinking_tools");
  EXPECT_TRUE(hermes.knows_tools());
  EXPECT_EQ(hermes.calls(), ChatDialect::Calls::as_objects);
  const std::string text = render(hermes, kTalk, {.tools = kTools});
  EXPECT_NE(text.find("# Tools"), text.npos);
  EXPECT_NE(text.find("<tool_call>\n{\"name\": \"add\", \"arguments\": {\"a\": 1, \"b\": 2}}\n</tool_call>"),
            text.npos);
  EXPECT_EQ(text.find("You can call functions"), text.npos);
  EXPECT_TRUE(shape("header_tools").knows_tools());
  EXPECT_TRUE(shape("inst_v3_tools").knows_tools());
}

TEST(ChatDialect, OthersAreToldInWords) {
  const ChatDialect plain = shape("chatml");
  EXPECT_FALSE(plain.knows_tools());
  EXPECT_EQ(plain.calls(), ChatDialect::Calls::unknown);
  const std::string text = render(plain, kTalk, {.tools = kTools});
  const std::size_t told = text.find("<|im_start|>system\nBe brief.\n\nYou can call functions.");
  const std::size_t called = text.find(
      "<|im_start|>assistant\n<tool_call>\n{\"name\": \"add\", \"arguments\": {\"a\": 1, \"b\": 2}}\n</tool_call>");
  const std::size_t answered = text.find("<|im_start|>user\n<tool_response>\n3\n</tool_response><|im_end|>");
  EXPECT_NE(answered, text.npos) << text;
  EXPECT_LT(told, called);
  EXPECT_LT(called, answered);
  const std::string alone = render(plain, std::span(kTalk).subspan(1, 1), {.tools = kTools});
  EXPECT_TRUE(alone.starts_with("<|im_start|>system\nYou can call functions.")) << alone;
}

TEST(ChatDialect, AnswersOfSeveralToolsAreOneTurn) {
  std::vector<Message> talk = kTalk;
  talk.push_back({"tool", "4", {}, "other"});
  EXPECT_NE(render(shape("turns"), std::span(talk).subspan(1), {}).find("3\n</tool_response>\n<tool_response>\n4"),
            std::string::npos);
}

TEST(ChatDialect, ACallBeginsAsTheTemplateWritesIt) {
  const std::vector<Message> ask{{"user", "1 + 2?"}};
  const ChatOptions forced{.tools = kTools, .begins_call = true};
  EXPECT_TRUE(render(shape("chatml"), ask, forced).ends_with("<|im_start|>assistant\n<tool_call>\n"));
  const std::string known = render(shape("thinking_tools"), ask, forced);
  EXPECT_TRUE(known.ends_with("<tool_call>\n")) << known;
}

TEST(ChatDialect, ArgumentsGoAsTheTemplateTakesThem) {
  const std::string head =
      "{% for m in messages %}{% if m.tool_calls %}{% for c in m.tool_calls %}{{ c.function.name }}";
  const std::string tail = "{% endfor %}{% else %}{{ m.content }}{% endif %}{% endfor %}";
  EXPECT_EQ(dialect(head + "{{ c.function.arguments|tojson }}" + tail).calls(), ChatDialect::Calls::as_objects);
  EXPECT_EQ(dialect(head + "{{ '=' + c.function.arguments }}" + tail).calls(), ChatDialect::Calls::as_strings);
  EXPECT_EQ(dialect(head + "{{ c.function.arguments }}" + tail).calls(), ChatDialect::Calls::as_strings);
  EXPECT_EQ(dialect(head + "{% for k, v in c.function.arguments.items() %}{{ k }}:{{ v }}{% endfor %}" + tail).calls(),
            ChatDialect::Calls::as_objects);
  EXPECT_EQ(dialect(head + tail).calls(), ChatDialect::Calls::unknown);
}

TEST(ChatDialect, ToolsMustBeAList) {
  const auto as_it_is = [](std::string_view said) { return std::string(said); };
  EXPECT_FALSE(shape("chatml").render(kTalk, {.tools = "{}"}, as_it_is).ok());
  EXPECT_FALSE(shape("chatml").render(kTalk, {.tools = "nonsense"}, as_it_is).ok());
}

// Everything that did not come from the template, wherever the template puts it.
TEST(ChatDialect, WhatIsSaidIsGuarded) {
  const auto guard = [](std::string_view said) {
    std::string safe(said);
    for (std::size_t at = 0; (at = safe.find("EVIL", at)) != safe.npos;) safe.replace(at, 4, "tame");
    return safe;
  };
  const std::string tools = R"([{"type": "function", "function": {"name": "EVIL1", "description": "EVIL2",
      "parameters": {"type": "object", "properties": {"EVIL3": {"enum": ["EVIL4"]}}}}}])";
  const std::vector<Message> talk{{"system", "EVIL5"},
                                  {"user", "EVIL6"},
                                  {"assistant", "EVIL7", {{"EVIL8", "EVIL9", R"({"EVILa": ["EV\u0049Lb"]})"}}},
                                  {"tool", "EVILc", {}, "EVIL8"}};
  for (const char* name : {"chatml", "thinking_tools", "turns"}) {
    const auto text = shape(name).render(talk, {.tools = tools}, guard);
    ASSERT_TRUE(text.ok()) << name << ": " << text.error().message;
    EXPECT_EQ(text->find("EVIL"), text->npos) << *text;
    for (const char* said : {"tame2", "tame5", "tame6", "tame9", "tamea", "tamec"}) {
      EXPECT_NE(text->find(said), text->npos) << name << " lacks " << said << ": " << *text;
    }
  }
}

}  // namespace
}  // namespace quire
