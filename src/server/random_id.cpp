#include "server/random_id.h"

#include <fmt/format.h>
#include <openssl/rand.h>

#include <cstdlib>

namespace quire::server {

std::string random_id(std::string prefix) {
  unsigned char bytes[12];
  if (RAND_bytes(bytes, sizeof bytes) != 1) std::abort();
  for (const unsigned char byte : bytes) prefix += fmt::format("{:02x}", byte);
  return prefix;
}

}  // namespace quire::server
