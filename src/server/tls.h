// What TLS needs to know before a client comes.
#pragma once

#include <memory>
#include <string>

#include "quire/result.h"

namespace boost::asio::ssl {
class context;
}

namespace quire::server {

// A server's certificate, with those that vouch for it behind it, and the key that belongs to it, as PEM files.
// TLS 1.2 and 1.3.
Result<std::shared_ptr<boost::asio::ssl::context>> load_tls(const std::string& cert, const std::string& key);

// Somebody besides the file's owner may read it.
bool others_can_read(const std::string& path);

}  // namespace quire::server
