// Packed weights in a file beside the model: written once, mapped by whoever loads it later.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "core/hash.h"
#include "loader/mapped_file.h"
#include "quire/result.h"

namespace quire {

// What weights were packed of, and how: a file of another key is somebody else's.
struct PackedKey {
  Digest digest;
  std::uint64_t bytes;  // of the panels
};

// Panels begin here, after the file's head.
inline constexpr std::uint64_t kPackedHeadBytes = 4096;

// Errc::not_found where there is no file, Errc::bad_file where it is not of this key, or cut short.
Result<MappedFile> open_packed_file(const std::string& path, const PackedKey& key);

// Takes the place of what was there once it is whole.
Result<void> write_packed_file(const std::string& path, const PackedKey& key, std::span<const std::byte> panels);

}  // namespace quire
