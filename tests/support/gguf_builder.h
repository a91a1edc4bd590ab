// Writes GGUF bytes, right or deliberately wrong: every count and offset can be overridden.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "loader/gguf.h"

namespace quire::testing_support {

class GgufBuilder {
 public:
  struct Tensor {
    std::string name;
    std::vector<std::uint64_t> dims;
    std::uint32_t type;
    std::vector<std::byte> data;
    std::optional<std::uint64_t> offset;  // else where it lands
  };

  std::string magic = "GGUF";
  std::uint32_t version = 3;
  std::optional<std::uint64_t> tensor_count;
  std::optional<std::uint64_t> key_count;
  std::uint64_t alignment = 32;

  GgufBuilder& key(std::string_view name, GgufType type, const std::function<void(GgufBuilder&)>& value) {
    text(name);
    number(static_cast<std::uint32_t>(type));
    value(*this);
    ++keys_;
    return *this;
  }
  GgufBuilder& u32(std::string_view name, std::uint32_t v) {
    return key(name, GgufType::u32, [&](GgufBuilder& b) { b.number(v); });
  }
  GgufBuilder& f32(std::string_view name, float v) {
    return key(name, GgufType::f32, [&](GgufBuilder& b) { b.number(v); });
  }
  GgufBuilder& string(std::string_view name, std::string_view v) {
    return key(name, GgufType::string, [&](GgufBuilder& b) { b.text(v); });
  }
  GgufBuilder& strings(std::string_view name, const std::vector<std::string>& v) {
    return key(name, GgufType::array, [&](GgufBuilder& b) {
      b.number(static_cast<std::uint32_t>(GgufType::string));
      b.number(static_cast<std::uint64_t>(v.size()));
      for (const auto& s : v) b.text(s);
    });
  }
  GgufBuilder& tensor(Tensor t) {
    tensors_.push_back(std::move(t));
    return *this;
  }
  GgufBuilder& f32_tensor(std::string name, std::vector<std::uint64_t> dims, float value = 1.f) {
    std::uint64_t n = 1;
    for (auto d : dims) n *= d;
    std::vector<std::byte> data(n * 4);
    for (std::uint64_t i = 0; i < n; ++i) std::memcpy(data.data() + i * 4, &value, 4);
    return tensor({std::move(name), std::move(dims), 0, std::move(data), std::nullopt});
  }

  // Raw pieces, for values that key() writes.
  template <class T>
  void number(T v) {
    const auto* p = reinterpret_cast<const std::byte*>(&v);
    metadata_.insert(metadata_.end(), p, p + sizeof(T));
  }
  void text(std::string_view s) {
    number(static_cast<std::uint64_t>(s.size()));
    const auto* p = reinterpret_cast<const std::byte*>(s.data());
    metadata_.insert(metadata_.end(), p, p + s.size());
  }

  std::vector<std::byte> build() const {
    GgufBuilder out;  // its metadata_ is the whole file
    for (char c : magic) out.number(c);
    out.number(version);
    out.number(tensor_count.value_or(tensors_.size()));
    out.number(key_count.value_or(keys_));
    out.metadata_.insert(out.metadata_.end(), metadata_.begin(), metadata_.end());
    std::uint64_t at = 0;
    for (const Tensor& t : tensors_) {
      out.text(t.name);
      out.number(static_cast<std::uint32_t>(t.dims.size()));
      for (auto d : t.dims) out.number(d);
      out.number(t.type);
      out.number(t.offset.value_or(at));
      at = align(at + t.data.size());
    }
    auto& bytes = out.metadata_;
    bytes.resize(align(bytes.size()));
    for (const Tensor& t : tensors_) {
      bytes.insert(bytes.end(), t.data.begin(), t.data.end());
      bytes.resize(align(bytes.size()));
    }
    return bytes;
  }

 private:
  std::size_t align(std::uint64_t n) const {
    return static_cast<std::size_t>((n + alignment - 1) / alignment * alignment);
  }

  std::vector<std::byte> metadata_;
  std::uint64_t keys_ = 0;
  std::vector<Tensor> tensors_;
};

}  // namespace quire::testing_support
