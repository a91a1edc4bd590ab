#include "loader/gguf.h"

#include <algorithm>
#include <bit>
#include <limits>

#include "core/checked_math.h"
#include "core/fail.h"
#include "core/printable.h"
#include "loader/gguf_bytes.h"

namespace quire {

using gguf_bytes::load;
using gguf_bytes::scalar_bytes;
using gguf_bytes::text_of;

namespace {

static_assert(std::endian::native == std::endian::little, "GGUF is read in place, little-endian");

constexpr std::size_t kMaxNameBytes = 65535;  // the format's own limit for keys
// The least a metadata entry or a tensor description can take: empty name, smallest value or rank.
constexpr std::uint64_t kMinKeyBytes = 8 + 4 + 1;
constexpr std::uint64_t kMinTensorBytes = 8 + 4 + 8 + 4 + 8;

}  // namespace

// Takes bytes off the front of the file; every take is checked against what is left.
class Gguf::Reader {
 public:
  Reader(std::span<const std::byte> file, const std::string& file_name) : file_(file), file_name_(file_name) {}

  std::size_t position() const { return position_; }
  std::size_t left() const { return file_.size() - position_; }

  Result<std::span<const std::byte>> take(std::uint64_t count, std::string_view what) {
    if (count > left()) {
      return fail(Errc::bad_file, "{}: the file ends inside {}: {} bytes expected at offset {}, {} left", file_name_,
                  what, count, position_, left());
    }
    const auto bytes = file_.subspan(position_, static_cast<std::size_t>(count));
    position_ += bytes.size();
    return bytes;
  }

  template <class T>
  Result<T> number(std::string_view what) {
    QUIRE_TRY(const auto bytes, take(sizeof(T), what));
    return load<T>(bytes.data());
  }

  Result<std::string_view> text(std::string_view what) {
    QUIRE_TRY(const auto length, number<std::uint64_t>(what));
    QUIRE_TRY(const auto bytes, take(length, what));
    return text_of(bytes);
  }

  Result<std::string_view> name_text(std::string_view what) {
    QUIRE_TRY(const auto text, this->text(what));
    if (text.size() > kMaxNameBytes) {
      return fail(Errc::bad_file, "{}: {} of {} bytes; at most {} are allowed", file_name_, what, text.size(),
                  kMaxNameBytes);
    }
    // Names are printed: no stranger's escape sequences on the terminal.
    if (std::ranges::any_of(text, is_control)) {
      return fail(Errc::bad_file, "{}: {} holds control characters: {:?}", file_name_, what, text);
    }
    return text;
  }

  Result<GgufType> type(std::string_view what) {
    QUIRE_TRY(const auto number, this->number<std::uint32_t>(what));
    if (number > static_cast<std::uint32_t>(GgufType::f64)) {
      return fail(Errc::bad_file, "{}: {}: value type {} does not exist; expected 0 to 12", file_name_, what, number);
    }
    return static_cast<GgufType>(number);
  }

 private:
  std::span<const std::byte> file_;
  const std::string& file_name_;
  std::size_t position_ = 0;
};

Result<Gguf> Gguf::parse(std::span<const std::byte> file, std::string file_name) {
  Gguf gguf;
  gguf.file_name_ = std::move(file_name);
  Reader reader(file, gguf.file_name_);

  QUIRE_TRY(const auto magic, reader.take(4, "the magic"));
  if (text_of(magic) != "GGUF") {
    return fail(Errc::bad_file, "{}: not a GGUF file: it starts with {:?}, expected \"GGUF\"", gguf.file_name_,
                text_of(magic));
  }
  QUIRE_TRY(gguf.version_, reader.number<std::uint32_t>("the version"));
  if (gguf.version_ != 2 && gguf.version_ != 3) {
    if ((gguf.version_ & 0xFFFFu) == 0) {
      return fail(Errc::unsupported, "{}: a big-endian GGUF file; convert it to little-endian", gguf.file_name_);
    }
    return fail(Errc::unsupported, "{}: GGUF version {}; versions 2 and 3 are supported", gguf.file_name_,
                gguf.version_);
  }
  QUIRE_TRY(const auto tensor_count, reader.number<std::uint64_t>("the tensor count"));
  QUIRE_TRY(const auto key_count, reader.number<std::uint64_t>("the key count"));
  if (key_count > reader.left() / kMinKeyBytes) {
    return fail(Errc::bad_file, "{}: {} metadata keys cannot fit in the {} bytes left", gguf.file_name_, key_count,
                reader.left());
  }
  if (tensor_count > reader.left() / kMinTensorBytes) {
    return fail(Errc::bad_file, "{}: {} tensors cannot fit in the {} bytes left", gguf.file_name_, tensor_count,
                reader.left());
  }
  QUIRE_CHECK_OK(gguf.read_metadata(reader, key_count));
  QUIRE_CHECK_OK(gguf.read_tensors(reader, tensor_count));

  std::uint64_t alignment = 32;
  if (gguf.has("general.alignment")) {
    QUIRE_TRY(alignment, gguf.integer("general.alignment", 1u << 20));
    if (alignment < 8 || !std::has_single_bit(alignment)) {
      return fail(Errc::bad_file, "{}: key 'general.alignment' is {}; expected a power of two from 8", gguf.file_name_,
                  alignment);
    }
  }
  const auto data_start = CheckedSize(reader.position()).align_up(alignment);
  if (!data_start.at_most(file.size())) {
    if (tensor_count > 0) {
      return fail(Errc::bad_file, "{}: the file ends before its tensor data", gguf.file_name_);
    }
    return gguf;
  }
  QUIRE_CHECK_OK(gguf.place_tensors(file.subspan(static_cast<std::size_t>(*data_start.get())), alignment));
  return gguf;
}

Result<void> Gguf::read_metadata(Reader& reader, std::uint64_t count) {
  for (std::uint64_t i = 0; i < count; ++i) {
    QUIRE_TRY(const auto key, reader.name_text("a metadata key"));
    const std::string what = fmt::format("key '{}'", key);
    Value value{};
    QUIRE_TRY(value.type, reader.type(what));
    value.element = value.type;
    value.count = 1;
    if (value.type == GgufType::array) {
      QUIRE_TRY(value.element, reader.type(what));
      QUIRE_TRY(value.count, reader.number<std::uint64_t>(what));
      if (value.element == GgufType::array) {
        return fail(Errc::unsupported, "{}: {}: arrays of arrays are not supported", file_name_, what);
      }
    }
    if (value.element == GgufType::string) {
      const std::size_t start = reader.position();
      if (value.count > reader.left() / 8) {
        return fail(Errc::bad_file, "{}: {}: {} strings cannot fit in the {} bytes left", file_name_, what, value.count,
                    reader.left());
      }
      const std::byte* first = nullptr;
      for (std::uint64_t s = 0; s < value.count; ++s) {
        QUIRE_TRY(const auto text, reader.text(what));
        if (s == 0) first = reinterpret_cast<const std::byte*>(text.data()) - 8;
      }
      value.bytes = {first, reader.position() - start};
    } else {
      const auto size = CheckedSize(value.count) * CheckedSize(scalar_bytes(value.element));
      QUIRE_TRY(value.bytes, reader.take(size.get().value_or(std::numeric_limits<std::uint64_t>::max()), what));
    }
    if (!values_.emplace(key, value).second) {
      return fail(Errc::bad_file, "{}: {} appears twice", file_name_, what);
    }
    keys_.push_back(key);
  }
  return {};
}

Result<void> Gguf::read_tensors(Reader& reader, std::uint64_t count) {
  for (std::uint64_t i = 0; i < count; ++i) {
    GgufTensor tensor{};
    QUIRE_TRY(tensor.name, reader.name_text("a tensor name"));
    const std::string what = fmt::format("tensor '{}'", tensor.name);
    QUIRE_TRY(const auto rank, reader.number<std::uint32_t>(what));
    if (rank < 1 || rank > 4) {
      return fail(Errc::bad_file, "{}: {} has {} dimensions; expected 1 to 4", file_name_, what, rank);
    }
    tensor.rank = static_cast<int>(rank);
    tensor.dims.fill(1);
    for (std::uint32_t d = 0; d < rank; ++d) {
      QUIRE_TRY(tensor.dims[d], reader.number<std::uint64_t>(what));
      if (tensor.dims[d] == 0) return fail(Errc::bad_file, "{}: {} has a dimension of 0", file_name_, what);
    }
    QUIRE_TRY(const auto type, reader.number<std::uint32_t>(what));
    const auto found = find_dtype(type);
    if (!found) {
      return fail(Errc::unsupported, "{}: {} has type {} (number {}), which this build does not read", file_name_, what,
                  unsupported_dtype_name(type), type);
    }
    tensor.type = found->type;
    QUIRE_TRY(const auto offset, reader.number<std::uint64_t>(what));
    if (!by_name_.emplace(tensor.name, tensors_.size()).second) {
      return fail(Errc::bad_file, "{}: {} appears twice", file_name_, what);
    }
    tensors_.push_back(tensor);
    offsets_.push_back(offset);
  }
  return {};
}

Result<void> Gguf::place_tensors(std::span<const std::byte> data, std::uint64_t alignment) {
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    GgufTensor& tensor = tensors_[i];
    const std::uint64_t offset = offsets_[i];
    const DTypeInfo& type = info(tensor.type);
    if (tensor.dims[0] % type.block_size != 0) {
      return fail(Errc::bad_file, "{}: tensor '{}' has rows of {} values; {} comes in blocks of {}", file_name_,
                  tensor.name, tensor.dims[0], type.name, type.block_size);
    }
    const auto elements = CheckedSize(tensor.dims[0]) * CheckedSize(tensor.dims[1]) * CheckedSize(tensor.dims[2]) *
                          CheckedSize(tensor.dims[3]);
    const auto size = elements / type.block_size * CheckedSize(type.block_bytes);
    if (offset % alignment != 0) {
      return fail(Errc::bad_file, "{}: tensor '{}' starts at {}, not a multiple of the alignment {}", file_name_,
                  tensor.name, offset, alignment);
    }
    if (!(CheckedSize(offset) + size).at_most(data.size())) {
      return fail(Errc::bad_file, "{}: tensor '{}' at {} reaches past the {} bytes of tensor data", file_name_,
                  tensor.name, offset, data.size());
    }
    tensor.data = data.subspan(static_cast<std::size_t>(offset), static_cast<std::size_t>(*size.get()));
  }
  std::vector<const GgufTensor*> in_order;
  in_order.reserve(tensors_.size());
  for (const GgufTensor& tensor : tensors_) in_order.push_back(&tensor);
  std::ranges::sort(in_order, {}, [](const GgufTensor* t) { return t->data.data(); });
  for (std::size_t i = 1; i < in_order.size(); ++i) {
    const GgufTensor& before = *in_order[i - 1];
    if (before.data.data() + before.data.size() > in_order[i]->data.data()) {
      return fail(Errc::bad_file, "{}: tensors '{}' and '{}' overlap", file_name_, before.name, in_order[i]->name);
    }
  }
  offsets_ = {};
  return {};
}

}  // namespace quire
