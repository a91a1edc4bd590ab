#include "server/api.h"
#include "server/request_fields.h"

namespace quire::server {

Handler with_model(const Serving& serving, ModelHandler body, Refusal refuse) {
  return [serving, body, refuse](const ExchangePtr& exchange) {
    Api<Json> parsed = parse_object(exchange->request.body);
    if (!parsed.ok()) return exchange->respond(refuse(parsed.error()));
    const auto document = std::make_shared<const Json>(std::move(*parsed));
    const Api<std::string> name = model_name_from(Fields(*document));
    if (!name.ok()) return exchange->respond(refuse(name.error()));

    const auto gone = std::make_shared<bool>(false);
    exchange->on_gone = [gone, serving] {
      *gone = true;
      ++serving.metrics.disconnected;
    };
    const auto go_on = [=](const Api<ServedPtr>& served) {
      if (*gone) return;
      exchange->on_gone = nullptr;
      answer_safely(exchange, [&] {
        const Api<void> done =
            served.ok() ? body(exchange, Fields(*document), *served, serving) : Api<void>(served.error());
        if (!done.ok()) exchange->respond(refuse(done.error()));
      });
    };
    serving.models.use(*name,
                       [=](const Api<ServedPtr>& served) { exchange->post([go_on, served] { go_on(served); }); });
  };
}

}  // namespace quire::server
