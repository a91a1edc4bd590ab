#include "lab/notebook.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

namespace quire::lab {
namespace {

namespace fs = std::filesystem;

class NotebookTest : public testing::Test {
 protected:
  void SetUp() override {
    folder = fs::path(testing::TempDir()) / ("quire-notebook-" + std::to_string(getpid()));
    fs::remove_all(folder);
  }
  void TearDown() override { fs::remove_all(folder); }

  Notebook open(const Conditions& with) const {
    auto notebook = Notebook::open(folder, with);
    EXPECT_TRUE(notebook.ok()) << notebook.error().message;
    return std::move(*notebook);
  }

  fs::path folder;
  Conditions conditions{"1.0", "a machine", "a model", "abc", "a text", "def", false, 2, ""};
};

Outcome outcome(double value) {
  Outcome o;
  o.figure("answer", value);
  return o;
}

const Experiment& first() { return *experiments().front(); }

TEST_F(NotebookTest, GoesOnWhereItWas) {
  ASSERT_TRUE(open(conditions).add(first(), outcome(1), 3).ok());
  Notebook again = open(conditions);
  EXPECT_TRUE(again.has(first().name));
  EXPECT_FALSE(again.has("nothing"));
  EXPECT_TRUE(again.set_aside().empty());
  ASSERT_TRUE(again.add(first(), outcome(2), 3).ok());
  const Notebook third = open(conditions);
  ASSERT_EQ(third.document()["experiments"].size(), 1u) << "a second result replaces the first";
  EXPECT_EQ(third.document()["experiments"][0]["figures"]["answer"], 2);
}

TEST_F(NotebookTest, OtherConditionsAreKeptApart) {
  ASSERT_TRUE(open(conditions).add(first(), outcome(1), 3).ok());
  std::vector<Conditions> others(6, conditions);
  others[0].version += "!";
  others[1].model_file += "!";
  others[2].text_digest += "!";
  others[3].machine += "!";
  others[4].quick = true;
  others[5].broken_key = "1,0,9";
  for (const Conditions& other : others) {
    const Notebook notebook = open(other);
    EXPECT_FALSE(notebook.has(first().name));
    EXPECT_TRUE(fs::exists(notebook.set_aside()));
    fs::rename(notebook.set_aside(), notebook.file());
  }
  EXPECT_TRUE(open(conditions).has(first().name)) << "what was set aside is whole";
}

TEST_F(NotebookTest, ABrokenFileIsSetAside) {
  fs::create_directories(folder);
  for (const char* text : {"{\"experiments\": [", "[]", "{\"experiments\": 3}", ""}) {
    std::ofstream(folder / "results.json") << text;
    const Notebook notebook = open(conditions);
    EXPECT_FALSE(notebook.has(first().name));
    EXPECT_TRUE(fs::exists(notebook.set_aside()));
  }
}

TEST_F(NotebookTest, WhatSomebodyEditedIsSetAsideWhereItCannotBeGoneOnFrom) {
  ASSERT_TRUE(open(conditions).add(first(), outcome(1), 3).ok());
  const nlohmann::ordered_json whole = open(conditions).document();
  const auto with = [&](const char* key, nlohmann::ordered_json value) {
    nlohmann::ordered_json edited = whole;
    edited[key] = std::move(value);
    return edited;
  };
  for (const auto& edited : {with("schema", "one"), with("schema", 99), with("conditions", nullptr),
                             with("experiments", {1, 2}), with("experiments", {{{"name", 7}}})}) {
    std::ofstream(folder / "results.json") << edited;
    Notebook notebook = open(conditions);
    EXPECT_FALSE(notebook.set_aside().empty()) << edited;
    EXPECT_FALSE(notebook.has(first().name)) << edited;
    EXPECT_TRUE(notebook.add(first(), outcome(2), 3).ok());
  }
}

TEST_F(NotebookTest, AFolderThatCannotBeMadeIsAnError) {
  std::ofstream(folder) << "a file";
  const auto notebook = Notebook::open(folder / "below", conditions);
  ASSERT_FALSE(notebook.ok());
  EXPECT_EQ(notebook.error().code, Errc::io);
  fs::remove(folder);
}

TEST(Digests, TellTextsApart) {
  EXPECT_EQ(digest_of("one"), digest_of("one"));
  EXPECT_NE(digest_of("one"), digest_of("two"));
  const auto llama = *Model::load(std::string(QUIRE_TEST_DATA) + "/models/llama.gguf");
  const auto qwen = *Model::load(std::string(QUIRE_TEST_DATA) + "/models/qwen2.gguf");
  EXPECT_EQ(digest_of(*llama), digest_of(*llama));
  EXPECT_NE(digest_of(*llama), digest_of(*qwen));
}

}  // namespace
}  // namespace quire::lab
