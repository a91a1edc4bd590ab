// The web page at /, which needs nothing from anywhere else.
#include "server/api.h"
#include "server/page_files.h"

namespace quire::server {

void add_page(Router& router) {
  for (const PageFile& file : page_files()) {
    router.add("GET", std::string(file.path), [file](const ExchangePtr& exchange) {
      HttpResponse response{200, std::string(file.content), std::string(file.type), {}};
      // Nothing but what this server sends, and nobody shows it inside another page.
      response.headers = {{"Content-Security-Policy",
                           "default-src 'self'; img-src 'self' data:; style-src 'self' 'unsafe-inline'; "
                           "frame-ancestors 'none'"},
                          {"X-Content-Type-Options", "nosniff"},
                          {"Referrer-Policy", "no-referrer"},
                          {"Cache-Control", "no-cache"}};
      exchange->respond(std::move(response));
    });
  }
}

}  // namespace quire::server
