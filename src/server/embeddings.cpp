// POST /v1/embeddings: what the model makes of a text, as a vector of length 1.
#include "server/api.h"
#include "server/base64.h"
#include "server/generation.h"
#include "server/request_fields.h"

namespace quire::server {
namespace {

class EmbeddingSpelling : public Spelling {
 public:
  EmbeddingSpelling(std::string model_name, bool base64) : model_name_(std::move(model_name)), base64_(base64) {}

  void token(Exchange&, int, const StreamEvent&) override {}
  void close(Exchange&, const Answer&) override {}
  void fail(Exchange&, const ApiError&) override {}
  Json whole(const Answer& answer) override {
    Json data = Json::array();
    for (const std::vector<float>& vector : answer.embeddings) {
      Json embedding = base64_ ? Json(to_base64(std::as_bytes(std::span(vector)))) : Json(vector);
      data.push_back({{"object", "embedding"}, {"index", data.size()}, {"embedding", std::move(embedding)}});
    }
    return {{"object", "list"},
            {"data", std::move(data)},
            {"model", model_name_},
            {"usage", {{"prompt_tokens", answer.report.prompt_tokens}, {"total_tokens", answer.report.prompt_tokens}}}};
  }

 private:
  std::string model_name_;
  bool base64_;
};

Api<void> embed(const ExchangePtr& exchange, const Fields& fields, const ServedPtr& served, const Serving& serving) {
  QUIRE_TRY(auto inputs, prompts_from(fields, "input", served->model()));
  QUIRE_TRY(const std::string encoding, fields.string("encoding_format", "float"));
  QUIRE_TRY(const std::string pooling, fields.string("pooling", "mean"));
  QUIRE_TRY(const std::string salt, salt_from(fields, exchange->caller));
  const int width = served->model().info().width;
  QUIRE_TRY(const std::int64_t dimensions, fields.integer("dimensions", width, width, width));
  (void)dimensions;
  if (encoding != "float" && encoding != "base64") {
    return bad_field("encoding_format", "'{}'; expected float or base64", encoding.substr(0, 50));
  }
  if (pooling != "mean" && pooling != "last") {
    return bad_field("pooling", "'{}'; expected mean or last", pooling.substr(0, 50));
  }
  Generation::Plan plan;
  for (auto& input : inputs) {
    Request request;
    request.tokens = std::move(input);
    request.max_tokens = 0;
    request.embedding = pooling == "mean" ? Embedding::mean : Embedding::last;
    request.salt = salt;
    plan.requests.push_back(std::move(request));
  }
  plan.spelling = std::make_unique<EmbeddingSpelling>(served->name, encoding == "base64");
  Generation::start(exchange, served, std::move(plan), serving.metrics);
  return {};
}

}  // namespace

void add_embeddings(Router& router, Serving serving) {
  router.add("POST", "/v1/embeddings", with_model(serving, embed));
}

}  // namespace quire::server
