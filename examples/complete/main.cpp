// Completes a text with a model: the whole public API in one page.
#include <quire/model.h>
#include <quire/session.h>

#include <algorithm>
#include <iostream>

int main(int argc, char** argv) {
  if (argc != 3) {
    std::cerr << "usage: complete MODEL.gguf TEXT\n";
    return 2;
  }
  const auto model = quire::Model::load(argv[1]);
  if (!model.ok()) {
    std::cerr << model.error().message << '\n';
    return 1;
  }
  quire::SessionOptions session_options;
  session_options.context = std::min<std::int64_t>(2048, (*model)->info().context);
  auto session = quire::Session::create(*model, session_options);
  if (!session.ok()) {
    std::cerr << session.error().message << '\n';
    return 1;
  }
  quire::GenerateOptions options;
  options.max_tokens = 32;
  options.sampling.temperature = 0;
  options.on_token = [](quire::TokenId, std::string_view text) { std::cout << text << std::flush; };
  const auto generation = session->generate((*model)->tokenize(argv[2]), options);
  if (!generation.ok()) {
    std::cerr << generation.error().message << '\n';
    return 1;
  }
  std::cout << '\n' << generation->tokens.size() << " tokens, " << session->cache().bytes << " bytes of cache\n";
  return 0;
}
