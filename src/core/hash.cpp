#include "core/hash.h"

#include <openssl/evp.h>

#include "core/check.h"

namespace quire {
namespace {

EVP_MD_CTX* evp(void* context) { return static_cast<EVP_MD_CTX*>(context); }

void start(void* context) {
  // Fetched once: looking the algorithm up costs more than hashing a block of tokens.
  static EVP_MD* const sha256 = EVP_MD_fetch(nullptr, "SHA256", nullptr);
  QUIRE_ASSERT(sha256 != nullptr && EVP_DigestInit_ex2(evp(context), sha256, nullptr) == 1, "OpenSSL without SHA-256");
}

}  // namespace

Hasher::Hasher() : context_(EVP_MD_CTX_new()) {
  QUIRE_ASSERT(context_ != nullptr, "no memory for a hash");
  start(context_);
}

Hasher::~Hasher() { EVP_MD_CTX_free(evp(context_)); }

Hasher& Hasher::update(std::span<const std::byte> bytes) {
  QUIRE_ASSERT(EVP_DigestUpdate(evp(context_), bytes.data(), bytes.size()) == 1, "SHA-256 failed");
  return *this;
}

Digest Hasher::finish() {
  Digest digest;
  QUIRE_ASSERT(EVP_DigestFinal_ex(evp(context_), reinterpret_cast<unsigned char*>(digest.data()), nullptr) == 1,
               "SHA-256 failed");
  start(context_);
  return digest;
}

}  // namespace quire
