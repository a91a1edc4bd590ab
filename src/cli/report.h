// What a generation did, for people and for programs.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "quire/session.h"

namespace quire::cli {

std::string duration(double seconds);  // that something may take: "40 s", "3 min"
nlohmann::ordered_json cache_json(const CacheReport& cache);
nlohmann::ordered_json generation_json(const Model& model, const Generation& generation, const CacheReport& cache);

// Two lines: speeds, and what the cache holds.
std::string summary(const Generation& generation, const CacheReport& cache);
std::string cache_summary(const CacheReport& cache);

std::string human_bytes(std::uint64_t bytes);

}  // namespace quire::cli
