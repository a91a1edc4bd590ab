#include "server/keys.h"

#include <openssl/crypto.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>
#include <sys/stat.h>

#include <array>
#include <fstream>

#include "core/fail.h"
#include "core/hex.h"
#include "server/base64.h"

namespace quire::server {
namespace {

constexpr std::size_t kShortest = 8, kLongest = 512;

Digest digest_of(std::string_view text) {
  return Hasher().update(std::as_bytes(std::span(text.data(), text.size()))).finish();
}

// Drawn when the program starts: tenants' names mean nothing to anybody else, nor to a later run.
const std::array<unsigned char, 32>& server_secret() {
  static const std::array<unsigned char, 32> secret = [] {
    std::array<unsigned char, 32> bytes{};
    if (RAND_bytes(bytes.data(), static_cast<int>(bytes.size())) != 1) std::abort();
    return bytes;
  }();
  return secret;
}

std::string tenant_of(const Digest& digest) {
  unsigned char mac[32];
  unsigned int length = 0;
  HMAC(EVP_sha256(), server_secret().data(), static_cast<int>(server_secret().size()),
       reinterpret_cast<const unsigned char*>(digest.data()), digest.size(), mac, &length);
  return to_hex(std::as_bytes(std::span(mac)).first(16));
}

// Of the digest, since the key itself is not kept.
std::string owner_of(const Digest& digest) { return to_hex(Hasher().update(digest).finish()); }

std::string_view without_prefix(std::string_view text, std::string_view prefix) {
  return text.substr(0, prefix.size()) == prefix ? text.substr(prefix.size()) : std::string_view();
}

// A bearer token, Anthropic's header, or what a browser asks its user for.
std::string sent_key(const HttpRequest& request) {
  const std::string_view authorization = request.header("Authorization");
  if (const auto key = without_prefix(authorization, "Bearer "); !key.empty()) return std::string(key);
  if (const auto coded = without_prefix(authorization, "Basic "); !coded.empty()) {
    const auto both = from_base64(coded);
    const auto colon = both ? both->find(':') : std::string::npos;
    return colon == std::string::npos ? std::string() : both->substr(colon + 1);
  }
  return std::string(request.header("X-Api-Key"));
}

}  // namespace

Result<void> Keys::add(const std::string& key, bool admin) {
  if (key.size() < kShortest || key.size() > kLongest) {
    return fail(Errc::invalid_argument, "an API key of {} characters; expected {} to {}", key.size(), kShortest,
                kLongest);
  }
  const Digest digest = digest_of(key);
  keys_.push_back({digest, admin, tenant_of(digest), owner_of(digest)});
  return {};
}

Result<void> Keys::add_file(const std::string& path, bool admin) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) return fail(Errc::not_found, "{}: cannot open the key file", path);
  if ((status.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
    return fail(Errc::invalid_argument, "{}: others can read the key file; make it private with chmod 600", path);
  }
  std::ifstream file(path);
  std::string line;
  int number = 0, found = 0;
  while (std::getline(file, line)) {
    ++number;
    while (!line.empty() && (line.back() == '\r' || line.back() == ' ' || line.back() == '\t')) line.pop_back();
    if (line.empty() || line.front() == '#') continue;
    if (auto added = add(line, admin); !added.ok()) {
      return fail(Errc::invalid_argument, "{}:{}: {}", path, number, added.error().message);
    }
    ++found;
  }
  if (found == 0) return fail(Errc::invalid_argument, "{}: no key in it; expected one a line", path);
  return {};
}

std::optional<Caller> Keys::caller(const HttpRequest& request) const {
  if (keys_.empty()) return Caller{"", true};
  const Digest digest = digest_of(sent_key(request));
  const Key* found = nullptr;
  for (const Key& key : keys_) {  // all of them, so that the time taken says nothing
    if (CRYPTO_memcmp(key.digest.data(), digest.data(), digest.size()) == 0) found = &key;
  }
  if (found == nullptr) return std::nullopt;
  return Caller{found->tenant, found->admin, found->owner};
}

}  // namespace quire::server
