// Which keywords of JSON schemas mean something here, and for which types.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "quire/result.h"

namespace quire::grammar {

// A keyword that is neither among `known` nor a mere remark is refused by name.
Result<void> refuse_other_keywords(const nlohmann::ordered_json& schema, const std::vector<std::string_view>& known,
                                   const std::string& path);

// `type` itself, and what may stand beside it.
std::vector<std::string_view> keywords_of_types(const std::vector<std::string>& types);

// The type that a schema without `type` speaks of by its keywords; "" for none.
std::string_view type_by_keywords(const nlohmann::ordered_json& schema);

}  // namespace quire::grammar
