#include "server/models.h"

#include <fmt/format.h>
#include <malloc.h>

#include <algorithm>
#include <filesystem>
#include <numeric>

#include "core/clock.h"
#include "core/fail.h"

namespace quire::server {
namespace {

constexpr std::uint64_t kLeastCache = 1 << 20;
constexpr std::chrono::milliseconds kLookAgain{5};

std::string mebibytes(std::uint64_t bytes) { return fmt::format("{:.1f} MiB", static_cast<double>(bytes) / (1 << 20)); }

const ApiError kStopping{503, "the server is stopping", "", "", 1};

void add_totals(EngineStats& to, const EngineStats& from) {
  for (const auto count :
       {&EngineStats::submitted, &EngineStats::finished, &EngineStats::cancelled, &EngineStats::refused,
        &EngineStats::failed, &EngineStats::prompt_tokens, &EngineStats::cached_tokens, &EngineStats::generated_tokens,
        &EngineStats::computed_tokens, &EngineStats::drafted_tokens, &EngineStats::accepted_tokens, &EngineStats::steps,
        &EngineStats::preemptions, &EngineStats::first_tokens}) {
    to.*count += from.*count;
  }
  to.first_token_ms += from.first_token_ms;
}

}  // namespace

std::vector<std::uint64_t> cache_shares(std::uint64_t bytes, const std::vector<std::uint64_t>& weights) {
  const std::uint64_t all = std::accumulate(weights.begin(), weights.end(), std::uint64_t{0});
  const std::uint64_t equal = all < bytes ? (bytes - all) / weights.size() : 0;
  std::vector<std::uint64_t> shares;
  shares.reserve(weights.size());
  for (const std::uint64_t own : weights) {
    shares.push_back(std::min(std::max(equal, bytes / 8), bytes - std::min(own, bytes)));
  }
  return shares;
}

Models::Models(ModelsOptions options) : options_(std::move(options)) {}
Models::~Models() { shut_down(); }

void Models::log(const std::string& line) const {
  if (options_.log) options_.log(line);
}

Result<ServedPtr> Models::open(const Entry& entry) const {
  const std::string& path = entry.info.path;
  try {
    QUIRE_TRY(std::shared_ptr<const Model> model, Model::load(path, options_.load));
    QUIRE_TRY(Engine engine, Engine::create(model, entry.options));
    if (const std::string note = model->packed_note(); !note.empty())
      log(fmt::format("quire: {}: {}", entry.name, note));
    return std::make_shared<ServedModel>(ServedModel{entry.name, std::move(model), std::move(engine)});
  } catch (const std::bad_alloc&) {
    return fail(Errc::out_of_memory, "{}: the system has no memory for it", path);
  }
}

Result<void> Models::add(const std::string& path, std::string name) {
  QUIRE_TRY(ModelInfo info, Model::inspect(path));
  if (name.empty()) name = std::filesystem::path(path).stem().string();
  for (const auto& other : entries_) {
    if (other->name != name) continue;
    return fail(Errc::invalid_argument, "{} and {} are both called '{}'; rename one of the files", other->info.path,
                path, name);
  }
  const std::uint64_t cache = std::max(options_.engine.cache.bytes, kLeastCache);
  if (options_.bytes > 0 && (cache > options_.bytes || info.weights_bytes > options_.bytes - cache)) {
    return fail(Errc::invalid_argument,
                "{}: {} of weights, with a cache beside them, are more than --model-bytes {} allows; raise it{}", path,
                mebibytes(info.weights_bytes), mebibytes(options_.bytes),
                options_.engine.cache.bytes > kLeastCache ? ", or lower --cache-bytes" : "");
  }
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  auto entry = std::make_unique<Entry>();
  entry->name = std::move(name);
  entry->created = std::chrono::duration_cast<std::chrono::seconds>(now).count();
  entry->options = options_.engine;
  entry->info = std::move(info);
  entries_.push_back(std::move(entry));
  return {};
}

Result<void> Models::start() {
  if (entries_.empty()) return fail(Errc::not_found, "there is no model to serve");
  std::vector<std::uint64_t> weights;
  for (const auto& entry : entries_) weights.push_back(entry->info.weights_bytes);
  const auto shares = cache_shares(options_.bytes, weights);
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    EngineOptions& options = entries_[i]->options;
    if (options_.bytes > 0 && options.cache.bytes == 0) options.cache.bytes = shares[i];
    // What is asked of all is of each as much as it can.
    if (options_.on_demand) options.context = std::min(options.context, entries_[i]->info.context);
    QUIRE_CHECK_OK(Engine::check(options));
  }
  if (options_.on_demand) return {};
  Entry& first = *entries_.front();
  QUIRE_TRY(first.served, open(first));
  first.loads = 1;
  return {};
}

Api<Models::Entry*> Models::find(const std::string& name) const {
  if (name.empty()) return entries_.front().get();
  std::string names;
  for (const auto& entry : entries_) {
    if (entry->name == name) return entry.get();
    names += (names.empty() ? "" : ", ") + entry->name;
  }
  return ApiError{404, fmt::format("no model '{}' here; there is: {}", name.substr(0, 100), names), "model",
                  "model_not_found", 0};
}

void Models::use(const std::string& name, Then then) {
  const Api<Entry*> found = find(name);
  if (!found.ok()) return then(found.error());
  Entry& entry = **found;
  ServedPtr served;
  {
    const std::scoped_lock lock(mutex_);
    entry.used = ++uses_;
    served = entry.served;
    if (served == nullptr && !stopping_) {
      entry.waiting.push_back(std::move(then));
      if (entry.waiting.size() > 1) return;  // it is being loaded, or in line
      to_load_.push_back(&entry);
      if (!loader_.joinable()) loader_ = std::thread([this] { run(); });
      asked_.notify_one();
      return;
    }
  }
  served == nullptr ? then(kStopping) : then(std::move(served));
}

void Models::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    asked_.wait(lock, [&] { return stopping_ || !to_load_.empty(); });
    if (stopping_) return;
    Entry& entry = *to_load_.front();
    to_load_.pop_front();
    lock.unlock();
    const Api<ServedPtr> loaded = load(entry);
    lock.lock();
    if (loaded.ok()) {
      entry.served = *loaded;
      ++entry.loads;
    }
    std::vector<Then> waiting;
    waiting.swap(entry.waiting);
    lock.unlock();
    for (const Then& then : waiting) then(loaded);
    waiting.clear();
    lock.lock();
  }
}

Api<ServedPtr> Models::load(const Entry& entry) {
  QUIRE_CHECK_OK(make_room(entry));
  const auto start = Clock::now();
  Result<ServedPtr> opened = open(entry);
  if (!opened.ok()) {
    log(fmt::format("quire: cannot load {}: {}", entry.name, opened.error().message));
    const bool may_pass = opened.error().code == Errc::out_of_memory;
    return ApiError{may_pass ? 503u : 500u,
                    fmt::format("model '{}' cannot be loaded: {}", entry.name, opened.error().message), "model",
                    "model_not_loaded", may_pass ? 10 : 0};
  }
  log(fmt::format("quire: loaded {} in {:.2f} s", entry.name, milliseconds_since(start) / 1e3));
  return std::move(*opened);
}

// Takes those out that were not used for the longest time, until there is room; none where that is not enough.
bool Models::take_unused(std::uint64_t needed, std::vector<ServedPtr>& leaving) {
  const std::scoped_lock lock(mutex_);
  std::vector<Entry*> unused;
  std::uint64_t held = 0;
  for (const auto& entry : entries_) {
    if (entry->served == nullptr) continue;
    held += entry->bytes();
    // Nobody else holds it, and nobody can get hold of it meanwhile.
    if (entry->served.use_count() == 1) unused.push_back(entry.get());
  }
  std::ranges::sort(unused, {}, &Entry::used);
  std::size_t go = 0;
  while (held + needed > options_.bytes && go < unused.size()) held -= unused[go++]->bytes();
  if (held + needed > options_.bytes) return false;
  for (std::size_t i = 0; i < go; ++i) {
    add_totals(unused[i]->past, unused[i]->served->engine.stats());
    leaving.push_back(std::move(unused[i]->served));
  }
  return true;
}

Api<void> Models::make_room(const Entry& entry) {
  if (options_.bytes == 0) return {};
  // An answer that was just read to its end is let go of a moment later.
  const auto until = Clock::now() + options_.patience;
  std::vector<ServedPtr> leaving;
  while (!take_unused(entry.bytes(), leaving)) {
    {
      std::unique_lock lock(mutex_);
      if (asked_.wait_for(lock, kLookAgain, [&] { return stopping_; })) return kStopping;
    }
    if (Clock::now() < until) continue;
    return ApiError{503,
                    fmt::format("model '{}' needs {}, and models that are in use leave less than that of the {} there "
                                "are; try again later (or raise --model-bytes)",
                                entry.name, mebibytes(entry.bytes()), mebibytes(options_.bytes)),
                    "model", "model_not_loaded", 5};
  }
  if (leaving.empty()) return {};
  for (ServedPtr& served : leaving) {
    const std::string name = served->name;
    served.reset();
    log(fmt::format("quire: unloaded {}", name));
  }
  ::malloc_trim(0);  // vocabularies are many small pieces, which the allocator would keep
  return {};
}

ModelView Models::view_of(const Entry& entry) const {
  ModelView view{entry.name, entry.info, entry.created, entry.options.context, entry.bytes(), nullptr, 0, {}};
  if (view.context == 0) view.context = entry.info.context;
  EngineStats past;
  {
    const std::scoped_lock lock(mutex_);
    view.served = entry.served;
    view.loads = entry.loads;
    past = entry.past;
  }
  if (view.served != nullptr) view.stats = view.served->engine.stats();
  view.stats.max_running = entry.options.max_running;
  add_totals(view.stats, past);
  return view;
}

Api<ModelView> Models::look(const std::string& name) const {
  QUIRE_TRY(const Entry* const entry, find(name));
  return view_of(*entry);
}

std::vector<ModelView> Models::look_at_all() const {
  std::vector<ModelView> views;
  for (const auto& entry : entries_) views.push_back(view_of(*entry));
  return views;
}

void Models::shut_down() {
  {
    const std::scoped_lock lock(mutex_);
    stopping_ = true;
  }
  asked_.notify_all();
  if (loader_.joinable()) loader_.join();
  for (const auto& entry : entries_) {
    entry->waiting.clear();
    if (entry->served == nullptr) continue;
    const Engine ended = std::move(entry->served->engine);
    entry->served.reset();
  }
}

}  // namespace quire::server
