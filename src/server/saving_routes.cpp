// Cached pages to files and back.
#include "server/cache_routes.h"
#include "server/saved_files.h"

namespace quire::server {
namespace {

// A client knows its file by name; where it lies is nobody's business.
ApiError told(Error error, const std::string& path, const std::string& filename) {
  if (const auto at = error.message.find(path); at != std::string::npos) {
    error.message.replace(at, path.size(), filename);
  }
  ApiError told = to_api_error(error);
  if (error.code == Errc::bad_file) {
    told.status = 422;
    told.code = "saved_pages_damaged";
  }
  return told;
}

Json document_of(const ServedModel& served, const std::string& filename, const SavedPrompt& saved) {
  return {{"model", served.name},
          {"filename", filename},
          {"prompt_tokens", saved.prompt_tokens},
          {"saved_tokens", saved.saved_tokens},
          {"reusable_tokens", saved.reusable_tokens},
          {"miss", {{"reason", spelled_miss(saved.miss)}, {"first_token", saved.reusable_tokens}}},
          {"bytes", saved.bytes},
          {"ms", saved.ms}};
}

struct File {
  std::string name, path;
};

Api<File> file_from(const Fields& fields, const Caller& caller, const SavedFiles& files) {
  QUIRE_TRY(const std::string salt, fields.string("cache_salt", "", 256));
  QUIRE_TRY(std::string name, fields.string("filename", "", 1 << 10));
  QUIRE_TRY(std::string path, files.path(caller, salt, name));
  return File{std::move(name), std::move(path)};
}

Api<void> save(const ExchangePtr& exchange, const Fields& fields, const ServedPtr& served, SavedFiles& files) {
  QUIRE_TRY(const File file, file_from(fields, exchange->caller, files));
  QUIRE_TRY(const Asked asked, prompt_from(fields, exchange->caller, served->model()));
  files.answer(exchange, [asked, file, served]() -> Api<Json> {
    if (auto made = SavedFiles::make_folder(file.path); !made.ok()) return made.error();
    const auto saved = served->engine.save(asked.request, file.path);
    if (!saved.ok()) return told(saved.error(), file.path, file.name);
    return document_of(*served, file.name, *saved);
  });
  return {};
}

Api<void> restore(const ExchangePtr& exchange, const Fields& fields, const ServedPtr& served, SavedFiles& files) {
  QUIRE_TRY(const File file, file_from(fields, exchange->caller, files));
  for (const char* field : {"messages", "prompt"}) {
    if (fields.has(field)) return bad_field(field, "the prompt is in the file; give 'filename' alone");
  }
  QUIRE_TRY(Asked asked, asked_from(fields, exchange->caller));
  asked.request.max_tokens = 0;
  asked.request.format = {};
  files.answer(exchange, [asked, file, served]() -> Api<Json> {
    const auto saved = served->engine.restore(asked.request, file.path);
    if (!saved.ok()) return told(saved.error(), file.path, file.name);
    Json document = document_of(*served, file.name, *saved);
    document["cached_tokens"] = saved->cached_tokens;
    document["restored_tokens"] = saved->restored_tokens;
    return document;
  });
  return {};
}

}  // namespace

void add_saving(Router& router, Serving serving, SavedFiles& files) {
  const auto add = [&](const char* path, auto action) {
    router.add(
        "POST", path,
        with_model(serving, [&files, action](const ExchangePtr& exchange, const Fields& fields, const ServedPtr& served,
                                             const Serving&) { return action(exchange, fields, served, files); }));
  };
  add("/v1/cache/save", &save);
  add("/v1/cache/restore", &restore);
}

}  // namespace quire::server
