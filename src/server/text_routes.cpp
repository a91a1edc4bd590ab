// llama.cpp's helpers: /tokenize, /detokenize, /apply-template.
#include "server/api.h"
#include "server/conversation.h"
#include "server/request_fields.h"

namespace quire::server {
namespace {

Api<Json> tokenize(const Fields& fields, const Model& model) {
  QUIRE_TRY(const std::string content, fields.string("content", "", 8 << 20));
  QUIRE_TRY(const bool pieces, fields.boolean("with_pieces", false));
  if (!fields.has("content")) return bad_field("content", "is missing");
  Json tokens = Json::array();
  for (const TokenId token : model.tokenize(content)) {
    tokens.push_back(pieces ? Json{{"id", token}, {"piece", spelled(model, token)}} : Json(token));
  }
  return Json{{"tokens", std::move(tokens)}};
}

Api<Json> detokenize(const Fields& fields, const Model& model) {
  QUIRE_TRY(const auto lists, prompts_from(fields, "tokens", model));
  std::string text;
  for (const auto& tokens : lists) text += model.text(tokens);
  return Json{{"content", std::move(text)}};
}

Api<Json> apply_template(const Fields& fields, const Model& model) {
  QUIRE_TRY(const auto tokens, chat_prompt_from(fields, model));
  return Json{{"prompt", model.text(tokens)}, {"tokens", tokens}};
}

template <auto kAnswer>
Api<void> respond_with(const ExchangePtr& exchange, const Fields& fields, const ServedPtr& served, const Serving&) {
  QUIRE_TRY(const Json document, kAnswer(fields, served->model()));
  respond_json(*exchange, document);
  return {};
}

}  // namespace

void add_text_routes(Router& router, Serving serving) {
  router.add("POST", "/tokenize", with_model(serving, respond_with<tokenize>));
  router.add("POST", "/detokenize", with_model(serving, respond_with<detokenize>));
  router.add("POST", "/apply-template", with_model(serving, respond_with<apply_template>));
}

}  // namespace quire::server
