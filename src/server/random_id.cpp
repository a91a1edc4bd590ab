#include "server/random_id.h"

#include <openssl/rand.h>

#include <cstdlib>
#include <utility>

#include "core/hex.h"

namespace quire::server {

std::string random_id(std::string prefix) {
  unsigned char bytes[12];
  if (RAND_bytes(bytes, sizeof bytes) != 1) std::abort();
  return std::move(prefix) + to_hex(std::as_bytes(std::span(bytes)));
}

}  // namespace quire::server
