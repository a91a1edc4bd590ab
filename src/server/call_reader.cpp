#include "server/call_reader.h"

#include <algorithm>
#include <array>
#include <utility>

#include "core/json_shape.h"

namespace quire::server {
namespace {

constexpr std::string_view kOpen = "<tool_call>", kClose = "</tool_call>", kSpace = " \t\r\n";
// How JSON begins that may be a call, without white space.
constexpr std::array<std::string_view, 2> kCallHeads{"{\"name\":", "[{\"name\":"};
constexpr std::size_t kLongestHead = 64;  // with white space

// So many characters at the end of the text may be the beginning of the tag.
std::size_t half_tag(std::string_view text, std::string_view tag) {
  for (std::size_t length = std::min(text.size(), tag.size() - 1); length > 0; --length) {
    if (text.ends_with(tag.substr(0, length))) return length;
  }
  return 0;
}

std::string compact(std::string_view text) {
  std::string out;
  for (const char c : text.substr(0, kLongestHead)) {
    if (kSpace.find(c) == kSpace.npos) out += c;
  }
  return out;
}

}  // namespace

void CallReader::say(AnswerPiece::Kind kind, std::string text) {
  if (text.empty()) return;
  if (kind != AnswerPiece::Kind::call && !said_.empty() && said_.back().kind == kind) {
    said_.back().text += text;
  } else {
    said_.push_back({kind, std::move(text)});
  }
}

std::vector<AnswerPiece> CallReader::read(std::string_view text) {
  if (rules_.mode == CallRules::Mode::none) {
    say(AnswerPiece::Kind::text, std::string(text));
  } else if (rules_.mode == CallRules::Mode::free) {
    held_ += text;
    read_free(false);
  } else {
    read_enforced(text);
  }
  return std::exchange(said_, {});
}

std::vector<AnswerPiece> CallReader::finish() {
  if (rules_.mode == CallRules::Mode::free) read_free(true);
  return std::exchange(said_, {});
}

// The text is JSON and in a known form: arguments can go on as they come.
void CallReader::read_enforced(std::string_view text) {
  const int outside = rules_.mode == CallRules::Mode::list ? 1 : 0;
  for (const char c : text) {
    const int before = depth_;
    const bool was_quoted = quoted_;
    if (quoted_) {
      if (c == '"' && !escaped_) quoted_ = false;
      escaped_ = c == '\\' && !escaped_;
    } else if (c == '"') {
      quoted_ = true;
    } else if (c == '{' || c == '[') {
      ++depth_;
    } else if (c == '}' || c == ']') {
      --depth_;
    }
    if (!in_arguments_ && !was_quoted && c == '{' && before == outside + 1) {
      const Json head = Json::parse(head_ + "0}", nullptr, false);
      say(AnswerPiece::Kind::call, head.is_object() ? head.value("name", "") : "");
      head_.clear();
      in_arguments_ = true;
    }
    if (in_arguments_) {
      say(AnswerPiece::Kind::arguments, std::string(1, c));
      if (depth_ == outside + 1) in_arguments_ = false;
    } else if (depth_ > outside) {
      head_ += c;
    } else {
      head_.clear();
    }
  }
}

void CallReader::read_free(bool at_end) {
  bool goes_on = true;
  while (goes_on && !held_.empty()) {
    switch (place_) {
      case Place::start:
        goes_on = read_start(at_end);
        break;
      case Place::text:
        goes_on = read_text(at_end);
        break;
      case Place::block:
        goes_on = read_block(at_end);
        break;
      case Place::json:
        goes_on = false;
        if (at_end && !say_calls(held_)) say(AnswerPiece::Kind::text, held_);
        break;
      case Place::after:
        held_.clear();
        break;
    }
  }
}

// Whether JSON that may be a call begins the answer.
bool CallReader::read_start(bool at_end) {
  const std::string head = compact(held_);
  for (const std::string_view call : kCallHeads) {
    if (head.starts_with(call)) {
      place_ = Place::json;
      return true;
    }
    if (!at_end && held_.size() < kLongestHead && call.starts_with(head)) return false;
  }
  place_ = Place::text;
  return true;
}

bool CallReader::read_text(bool at_end) {
  const std::size_t open = held_.find(kOpen);
  if (open == held_.npos && at_end) {
    if (!called_ || held_.find_first_not_of(kSpace) != held_.npos) say(AnswerPiece::Kind::text, held_);
    held_.clear();
    return false;
  }
  // White space around a call is part of neither.
  std::size_t end = open != held_.npos ? open : held_.size() - half_tag(held_, kOpen);
  const std::size_t last = std::string_view(held_).substr(0, end).find_last_not_of(kSpace);
  const std::size_t said = last == held_.npos ? 0 : last + 1;
  say(AnswerPiece::Kind::text, held_.substr(0, said));
  if (open == held_.npos) {
    held_.erase(0, said);
    return false;
  }
  held_.erase(0, open + kOpen.size());
  place_ = Place::block;
  return true;
}

bool CallReader::read_block(bool at_end) {
  const std::size_t close = held_.find(kClose);
  if (close == held_.npos && !at_end) return false;
  const std::string inside = held_.substr(0, close);
  held_.erase(0, close == held_.npos ? close : close + kClose.size());
  place_ = Place::text;
  if (say_calls(inside)) {
    if (!rules_.several) place_ = Place::after;
  } else {
    say(AnswerPiece::Kind::text, std::string(kOpen) + inside + (close == std::string::npos ? "" : std::string(kClose)));
  }
  return true;
}

// False, and nothing is said, where it is anything but calls of functions that exist.
bool CallReader::say_calls(const std::string& json) {
  if (json_shape(json) != JsonShape::good) return false;
  Json parsed = Json::parse(json, nullptr, false);
  if (parsed.is_object()) parsed = Json::array({std::move(parsed)});
  if (!parsed.is_array() || parsed.empty()) return false;
  std::vector<Call> calls;
  for (const Json& item : parsed) {
    if (!item.is_object() || !item.contains("name") || !item["name"].is_string()) return false;
    const auto name = item["name"].get<std::string>();
    if (std::find(rules_.names.begin(), rules_.names.end(), name) == rules_.names.end()) return false;
    const auto arguments = item.contains("arguments") ? item.find("arguments") : item.find("parameters");
    if (arguments == item.end() || !arguments->is_object()) return false;
    calls.push_back({name, written(*arguments)});
  }
  if (!rules_.several) calls.resize(1);
  called_ = true;
  for (Call& call : calls) {
    say(AnswerPiece::Kind::call, std::move(call.name));
    say(AnswerPiece::Kind::arguments, std::move(call.arguments));
  }
  return true;
}

ReadAnswer read_answer(const CallRules& rules, std::string_view text) {
  ReadAnswer answer;
  CallReader reader(rules);
  for (const auto& pieces : {reader.read(text), reader.finish()}) {
    for (const AnswerPiece& piece : pieces) {
      if (piece.kind == AnswerPiece::Kind::text) answer.text += piece.text;
      if (piece.kind == AnswerPiece::Kind::call) answer.calls.push_back({piece.text, ""});
      if (piece.kind == AnswerPiece::Kind::arguments) answer.calls.back().arguments += piece.text;
    }
  }
  return answer;
}

}  // namespace quire::server
