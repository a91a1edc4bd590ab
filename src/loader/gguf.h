// GGUF, versions 2 and 3: a header, key/value metadata, tensor descriptions, then aligned data.
//
//   "GGUF" u32 version  u64 tensor_count  u64 key_count
//   key_count    x { string key, u32 type, value }
//   tensor_count x { string name, u32 rank, u64 dims[rank], u32 type, u64 offset }
//   padding to general.alignment, then the tensors' bytes
//
// The file is hostile: parse() is a pure function of its bytes, every count is held against the
// bytes that are left before anything is allocated for it, and sizes go through CheckedSize.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/dtype.h"
#include "quire/result.h"

namespace quire {

enum class GgufType : std::uint32_t { u8, i8, u16, i16, u32, i32, f32, boolean, string, array, u64, i64, f64 };

struct GgufTensor {
  std::string_view name;
  DType type;
  int rank;                           // 1 to 4
  std::array<std::uint64_t, 4> dims;  // fastest first; 1 beyond the rank
  std::span<const std::byte> data;

  std::uint64_t elements() const { return dims[0] * dims[1] * dims[2] * dims[3]; }
};

// Views into the bytes given to parse(), which must outlive it.
class Gguf {
 public:
  static Result<Gguf> parse(std::span<const std::byte> file, std::string file_name);

  const std::string& file_name() const { return file_name_; }
  std::uint32_t version() const { return version_; }
  const std::vector<GgufTensor>& tensors() const { return tensors_; }
  const GgufTensor* find_tensor(std::string_view name) const;

  // Metadata. Each getter fails, naming file and key, when the key is missing or has another type.
  bool has(std::string_view key) const { return values_.contains(key); }
  Result<std::uint64_t> integer(std::string_view key, std::uint64_t at_most) const;  // of any width, not negative
  Result<double> real(std::string_view key) const;                                   // a float of any width
  Result<bool> boolean(std::string_view key) const;
  Result<std::string_view> string(std::string_view key) const;
  Result<std::vector<std::string_view>> strings(std::string_view key) const;
  Result<std::vector<std::int64_t>> integers(std::string_view key) const;  // an array of any integer or boolean type
  Result<std::vector<float>> floats(std::string_view key) const;

  // For showing a file's contents: keys in file order, and a value as short text.
  const std::vector<std::string_view>& keys() const { return keys_; }
  std::string show(std::string_view key) const;

 private:
  struct Value {
    GgufType type;
    GgufType element;     // of an array
    std::uint64_t count;  // of an array, else 1
    std::span<const std::byte> bytes;
  };
  class Reader;

  Result<const Value*> find(std::string_view key, std::string_view expected) const;
  Error wrong_type(std::string_view key, const Value& value, std::string_view expected) const;
  Result<void> read_metadata(Reader& reader, std::uint64_t count);
  Result<void> read_tensors(Reader& reader, std::uint64_t count);
  Result<void> place_tensors(std::span<const std::byte> data, std::uint64_t alignment);

  std::string file_name_;
  std::uint32_t version_ = 0;
  std::unordered_map<std::string_view, Value> values_;
  std::vector<std::string_view> keys_;
  std::vector<GgufTensor> tensors_;
  std::vector<std::uint64_t> offsets_;  // of tensors_, until they are placed
  std::unordered_map<std::string_view, std::size_t> by_name_;
};

std::string_view name(GgufType type);

}  // namespace quire
