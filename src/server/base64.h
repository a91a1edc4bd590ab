#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace quire::server {

std::string to_base64(std::span<const std::byte> bytes);
std::optional<std::string> from_base64(std::string_view text);

}  // namespace quire::server
