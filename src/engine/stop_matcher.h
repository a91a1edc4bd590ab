// Ends a text before any of some strings, wherever token borders fall: what may be the beginning
// of one is held back until it is clear.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace quire {

class StopMatcher {
 public:
  explicit StopMatcher(std::vector<std::string> stops);

  // More text: what of it, and of what was held back, may be shown.
  std::string push(std::string_view text);
  // The text is over: what was held back.
  std::string flush();
  bool stopped() const { return stopped_; }  // one of the strings came; nothing follows

 private:
  std::vector<std::string> stops_;
  std::string held_;
  bool stopped_ = false;
};

}  // namespace quire
