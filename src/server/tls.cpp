#include "server/tls.h"

#include <fcntl.h>
#include <openssl/ssl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <boost/asio/ssl/context.hpp>
#include <cerrno>
#include <cstring>

#include "core/fail.h"

namespace quire::server {
namespace {

namespace ssl = boost::asio::ssl;

// OpenSSL says only "no such file" or "system library".
Result<void> check_readable(const char* option, const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return fail(Errc::invalid_argument, "{} {}: cannot open: {}", option, path, std::strerror(errno));
  struct stat status {};
  const bool is_file = ::fstat(fd, &status) == 0 && S_ISREG(status.st_mode);
  ::close(fd);
  if (!is_file) return fail(Errc::invalid_argument, "{} {}: not a regular file; expected PEM", option, path);
  return {};
}

}  // namespace

bool others_can_read(const std::string& path) {
  struct stat status {};
  return ::stat(path.c_str(), &status) == 0 && (status.st_mode & (S_IRWXG | S_IRWXO)) != 0;
}

Result<std::shared_ptr<ssl::context>> load_tls(const std::string& cert, const std::string& key) {
  if (cert.empty() || key.empty()) {
    return fail(Errc::invalid_argument, "--tls-cert and --tls-key go together; {} is missing",
                cert.empty() ? "--tls-cert FILE" : "--tls-key FILE");
  }
  QUIRE_CHECK_OK(check_readable("--tls-cert", cert));
  QUIRE_CHECK_OK(check_readable("--tls-key", key));
  auto context = std::make_shared<ssl::context>(ssl::context::tls_server);
  SSL_CTX* const native = context->native_handle();
  SSL_CTX_set_min_proto_version(native, TLS1_2_VERSION);
  SSL_CTX_set_options(native, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
  SSL_CTX_set_session_cache_mode(native, SSL_SESS_CACHE_OFF);  // clients keep their tickets themselves
  boost::system::error_code code;
  context->use_certificate_chain_file(cert, code);
  if (code.failed()) {
    return fail(Errc::invalid_argument, "--tls-cert {}: {}; expected certificates in PEM, the server's own first", cert,
                code.message());
  }
  // Nobody sits there to type a passphrase, and OpenSSL would ask on the terminal.
  bool asked = false;
  context->set_password_callback(
      [&asked](std::size_t, ssl::context::password_purpose) {
        asked = true;
        return std::string();
      },
      code);
  context->use_private_key_file(key, ssl::context::pem, code);
  const std::string refused = code.failed() ? code.message() : "";
  context->set_password_callback([](std::size_t, ssl::context::password_purpose) { return std::string(); }, code);
  if (asked) {
    return fail(Errc::invalid_argument,
                "--tls-key {}: needs a passphrase; expected a key without one, in a file of mode 0600", key);
  }
  // A key of the same kind that does not belong to the certificate is refused as it is read.
  if (SSL_CTX_get0_certificate(native) != nullptr && SSL_CTX_check_private_key(native) == 1) return context;
  if (refused.find("mismatch") != std::string::npos || refused.empty()) {
    return fail(Errc::invalid_argument,
                "--tls-key {} does not belong to --tls-cert {}; expected the key it was made for", key, cert);
  }
  return fail(Errc::invalid_argument, "--tls-key {}: {}; expected a private key in PEM", key, refused);
}

}  // namespace quire::server
