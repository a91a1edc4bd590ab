#include "text/pretokenizer.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <utility>

#include "core/check.h"
#include "core/fail.h"

namespace quire {
namespace {

// The patterns below name character classes <L>, <N>, <P> and <S>, always within brackets.
//
// The vocabularies' reference is llama.cpp, whose tables are Unicode 15.1's. PCRE2 up to 10.42
// knows Unicode 14, so what came since is spelled out. Its \s also takes U+180E, which Unicode
// moved out of the spaces long ago, so spaces are spelled out altogether.
constexpr std::pair<std::string_view, std::string_view> kClasses[] = {
    {"<L>", R"(\p{L}\x{1123F}-\x{11240}\x{11F02}\x{11F04}-\x{11F10}\x{11F12}-\x{11F33}\x{1342F}\x{13441}-\x{13446})"
            R"(\x{1B132}\x{1B155}\x{1DF25}-\x{1DF2A}\x{1E030}-\x{1E06D}\x{1E4D0}-\x{1E4EB}\x{2B739}\x{2EBF0}-\x{2EE5D})"
            R"(\x{31350}-\x{323AF})"},
    {"<N>", R"(\p{N}\x{11F50}-\x{11F59}\x{1D2C0}-\x{1D2D3}\x{1E4F0}-\x{1E4F9})"},
    {"<P>", R"(\p{P}\x{11B00}-\x{11B09}\x{11F43}-\x{11F4F})"},
    {"<S>", R"(\x09-\x0D\x20\x{85}\x{A0}\x{1680}\x{2000}-\x{200A}\x{2028}\x{2029}\x{202F}\x{205F}\x{3000})"},
};

constexpr std::string_view kGpt2 = "'(?:[stmd]|re|ve|ll)| ?[<L>]+| ?[<N>]+| ?[^<S><L><N>]+|[<S>]+(?![^<S>])|[<S>]+";
constexpr std::string_view kLlama3 =
    "'(?:[sStTmMdD]|[rR][eE]|[vV][eE]|[lL][lL])|[^\\r\\n<L><N>]?[<L>]+|[<N>]{1,3}| ?[^<S><L><N>]+[\\r\\n]*"
    "|[<S>]*[\\r\\n]+|[<S>]+(?![^<S>])|[<S>]+";
constexpr std::string_view kQwen2 =
    "'(?:[sStTmMdD]|[rR][eE]|[vV][eE]|[lL][lL])|[^\\r\\n<L><N>]?[<L>]+|[<N>]| ?[^<S><L><N>]+[\\r\\n]*"
    "|[<S>]*[\\r\\n]+|[<S>]+(?![^<S>])|[<S>]+";

struct Recipe {
  std::string_view name;
  PretokenizerTraits traits;
  std::vector<std::string_view> patterns;
};

const std::vector<Recipe>& recipes() {
  static const std::vector<Recipe> all = {
      {"default", {false, false}, {"[<P>$+<=>^~|]+", kGpt2, "[<N>]+", "[0-9][0-9][0-9]"}},
      {"gpt-2", {false, false}, {kGpt2}},
      {"smollm", {false, false}, {"[<N>]", kGpt2}},
      {"llama-bpe", {true, true}, {kLlama3}},
      {"llama3", {true, true}, {kLlama3}},
      {"llama-v3", {true, true}, {kLlama3}},
      {"qwen2", {false, false}, {kQwen2}},
      {"deepseek-r1-qwen", {false, false}, {kQwen2}},
  };
  return all;
}

std::string expand_classes(std::string_view pattern) {
  std::string out(pattern);
  for (const auto& [placeholder, members] : kClasses) {
    for (std::size_t at = 0; (at = out.find(placeholder, at)) != std::string::npos; at += members.size()) {
      out.replace(at, placeholder.size(), members);
    }
  }
  return out;
}

struct FreeCode {
  void operator()(pcre2_code* code) const { pcre2_code_free(code); }
};
struct FreeMatchData {
  void operator()(pcre2_match_data* data) const { pcre2_match_data_free(data); }
};
struct FreeMatchContext {
  void operator()(pcre2_match_context* context) const { pcre2_match_context_free(context); }
};

}  // namespace

class Pretokenizer::Pattern {
 public:
  explicit Pattern(std::string_view pattern) {
    const std::string expanded = expand_classes(pattern);
    int error = 0;
    PCRE2_SIZE where = 0;
    code_.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(expanded.data()), expanded.size(), PCRE2_UTF | PCRE2_UCP,
                              &error, &where, nullptr));
    QUIRE_ASSERT(code_, "a built-in pattern does not compile");
    pcre2_jit_compile(code_.get(), PCRE2_JIT_COMPLETE);  // where there is no JIT, matching is merely slower

    // A run of spaces is gone through backwards once, whatever its length: that is linear, and no
    // reason to stop.
    context_.reset(pcre2_match_context_create(nullptr));
    QUIRE_ASSERT(context_, "out of memory");
    pcre2_set_match_limit(context_.get(), std::numeric_limits<std::uint32_t>::max());
    pcre2_set_heap_limit(context_.get(), std::numeric_limits<std::uint32_t>::max());
  }

  // The first match in text from offset on; none is an empty range at the end.
  std::pair<std::size_t, std::size_t> find(std::string_view text, std::size_t offset, pcre2_match_data* data) const {
    const auto match = [&](std::uint32_t options) {
      return pcre2_match(code_.get(), reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), offset,
                         PCRE2_NO_UTF_CHECK | PCRE2_NOTEMPTY | options, data, context_.get());
    };
    int count = match(0);
    if (count < PCRE2_ERROR_NOMATCH) count = match(PCRE2_NO_JIT);  // the JIT's stack is small, the heap is not
    QUIRE_ASSERT(count >= PCRE2_ERROR_NOMATCH, "out of memory");   // no other failure is left
    if (count < 1) return {text.size(), text.size()};
    const PCRE2_SIZE* range = pcre2_get_ovector_pointer(data);
    return {range[0], range[1]};
  }

 private:
  std::unique_ptr<pcre2_code, FreeCode> code_;
  std::unique_ptr<pcre2_match_context, FreeMatchContext> context_;
};

Pretokenizer::Pretokenizer(PretokenizerTraits traits) : traits_(traits) {}
Pretokenizer::Pretokenizer(Pretokenizer&&) noexcept = default;
Pretokenizer& Pretokenizer::operator=(Pretokenizer&&) noexcept = default;
Pretokenizer::~Pretokenizer() = default;

Result<Pretokenizer> Pretokenizer::create(std::string_view name) {
  if (name.empty()) name = "default";
  std::string known;
  for (const Recipe& recipe : recipes()) {
    if (recipe.name == name) {
      Pretokenizer pretokenizer(recipe.traits);
      for (const std::string_view pattern : recipe.patterns) pretokenizer.patterns_.emplace_back(pattern);
      return pretokenizer;
    }
    known += known.empty() ? "" : ", ";
    known += recipe.name;
  }
  return fail(Errc::unsupported, "[tokenizer] pre-tokenizer '{}' is not known; known are {}", name, known);
}

class Pretokenizer::Splitter {
 public:
  Splitter(const std::vector<Pattern>& patterns, std::string_view text, const Word& word)
      : patterns_(patterns), text_(text), word_(word), match_data_(pcre2_match_data_create(1, nullptr)) {
    QUIRE_ASSERT(match_data_, "out of memory");
  }

  void run(std::size_t begin, std::size_t end, std::size_t level = 0) {
    if (level == patterns_.size()) return word_(begin, end);
    // Each part is matched on its own: to a look-ahead, the end of the part is the end of the text.
    const std::string_view part = text_.substr(begin, end - begin);
    for (std::size_t done = 0; done < part.size();) {
      const auto [from, to] = patterns_[level].find(part, done, match_data_.get());
      if (from > done) run(begin + done, begin + from, level + 1);
      if (to > from) run(begin + from, begin + to, level + 1);
      done = to;
    }
  }

 private:
  const std::vector<Pattern>& patterns_;
  const std::string_view text_;
  const Word& word_;
  const std::unique_ptr<pcre2_match_data, FreeMatchData> match_data_;
};

void Pretokenizer::split(std::string_view text, const Word& word) const {
  Splitter(patterns_, text, word).run(0, text.size());
}

}  // namespace quire
