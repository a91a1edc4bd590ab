#include "model/packed_file.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>

#include "core/durable_file.h"
#include "core/fail.h"

namespace quire {
namespace {

using Head = std::array<std::byte, kPackedHeadBytes>;

Head head_of(const PackedKey& key) {
  constexpr std::string_view kMagic = "quire packed weights\n";
  Head head{};
  std::byte* to = head.data();
  const auto put = [&to](const void* from, std::size_t bytes) {
    std::memcpy(to, from, bytes);
    to += bytes;
  };
  put(kMagic.data(), kMagic.size());
  put(key.digest.data(), key.digest.size());
  put(&key.bytes, sizeof key.bytes);
  return head;
}

}  // namespace

Result<MappedFile> open_packed_file(const std::string& path, const PackedKey& key) {
  QUIRE_TRY(MappedFile file, MappedFile::open(path));
  const auto bytes = file.bytes();
  const bool ours =
      bytes.size() == kPackedHeadBytes + key.bytes && std::ranges::equal(bytes.first(kPackedHeadBytes), head_of(key));
  if (!ours) return fail(Errc::bad_file, "{}: not these weights, packed for these kernels", path);
  return file;
}

Result<void> write_packed_file(const std::string& path, const PackedKey& key, std::span<const std::byte> panels) {
  QUIRE_TRY(DurableFile file, DurableFile::create(path));
  const Head head = head_of(key);
  QUIRE_CHECK_OK(file.write(head));
  QUIRE_CHECK_OK(file.write(panels));
  return file.commit();
}

}  // namespace quire
