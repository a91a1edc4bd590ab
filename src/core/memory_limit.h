// How much memory there is for this process.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace quire {

// What the machine has, or less where a control group allows less.
std::uint64_t usable_memory();

// The least that the control groups of a process allow, all that are around it included; nothing where none sets a
// limit. membership: as /proc/self/cgroup tells it; root: where control groups are mounted.
std::optional<std::uint64_t> cgroup_memory(const std::string& membership, const std::filesystem::path& root);

}  // namespace quire
