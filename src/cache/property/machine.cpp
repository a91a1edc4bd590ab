#include "cache/property/machine.h"

#include <algorithm>

namespace quire::property {
namespace {

constexpr std::int64_t kLongest = 320;
constexpr std::size_t kMostLive = 6, kMostRemembered = 12;

std::string salt_text(Hash salt) { return salt == 0 ? "" : "tenant " + std::to_string(salt); }

// Few patterns over three tokens: who goes on in the same way from the same place shares a prefix.
TokenId token_at(std::uint8_t pattern, std::int64_t position) {
  return pattern % 4 == 0 ? 0 : static_cast<TokenId>(mix(pattern % 4 * 1000 + static_cast<Hash>(position)) % 3);
}

std::int64_t step_size(std::uint8_t choice) {
  if (choice < 112) return 1 + choice % 4;
  return 1 + choice % (choice < 208 ? 32 : 80);
}

}  // namespace

Machine::Machine(const Setup& setup, PageBytes& bytes)
    : bytes_(bytes),
      roomy_(setup.tight_budget == 0),
      visible_(setup.policies),
      cache_(std::move(*KvCache::create(options_of(setup)))),
      layouts_(layouts_of(setup)),
      oracle_(std::make_unique<Oracle>(layouts_, bytes)) {
  const char* const names[] = {"h2o:16", "h2o:75", "snapkv:50", "snapkv:20%"};
  for (std::size_t i = 0; i < policies_.size(); ++i) policies_[i] = std::move(*parse_policy(names[i]));
}

std::string Machine::run(const std::vector<Command>& commands) {
  try {
    for (const Command& command : commands) {
      touched_ = nullptr;
      ++operations_;
      execute(command);
      if (touched_ != nullptr) check(*touched_);
      if (!live_.empty()) check(live_[operations_ % live_.size()]);
      if (operations_ % 16 == 0) {
        for (Live& live : live_) check(live);
      }
      check_stats();
      check_pages();
      bytes_.limit_size();
    }
    clear();
    cache_->forget_unused();
    expect(cache_->pool_counters().used_bytes == 0, "pages in use when nobody is left");
  } catch (const Mismatch& mismatch) {
    return mismatch.what + ", after " + std::to_string(operations_) + " operations";
  }
  return "";
}

void Machine::execute(const Command& command) {
  const int what = command.what % 64;
  if (live_.empty() || what < 9) return open(command);
  if (what < 24) return append(command, false);
  if (what < 30) return append(command, true);
  if (what < 35) return append_pair(command);
  if (what < 37) return prepare_in_vain(command);
  if (what < 41) return fork(command);
  if (what < 47) return rollback(command);
  if (what < 49) return drop_front(command);
  if (what < 53) return checkpoint(command);
  if (what < 56) return evict(command);
  if (what < 59) return look_up(command);
  if (what < 63 || command.b % 8 != 0) return release(command);
  clear();
}

Machine::Live& Machine::pick(std::uint8_t choice) { return live_[choice % live_.size()]; }

std::vector<TokenId> Machine::next_tokens(const Live& live, std::int64_t count, std::uint8_t pattern) const {
  std::vector<TokenId> tokens;
  const std::int64_t length = live.model.length();
  for (std::int64_t p = length; p < std::min(length + count, kLongest); ++p) tokens.push_back(token_at(pattern, p));
  return tokens;
}

// An empty sequence, and a prompt that begins like one that is there or was.
Machine::Live& Machine::open_sequence(const Command& command, std::vector<TokenId>& prompt) {
  if (live_.size() == kMostLive) close(command.a % live_.size());
  const Hash salt = command.a % 16 == 0 ? 1 : 0;
  if (const std::size_t known = live_.size() + remembered_.size(); known > 0) {
    const std::size_t choice = command.b % known;
    const History& begin = choice < live_.size() ? live_[choice].model.history : remembered_[choice - live_.size()];
    const std::int64_t length = begin.length();
    const std::int64_t same = command.c < 96    ? length
                              : command.c < 160 ? length / kPageTokens * kPageTokens
                                                : length * (command.c % 16) / 16;
    prompt.assign(begin.tokens().begin(), begin.tokens().begin() + same);
  }
  const std::int64_t end = std::min(kLongest, std::ssize(prompt) + command.a % 4 * 11);
  for (std::int64_t p = std::ssize(prompt); p < end; ++p) prompt.push_back(token_at(command.b, p));
  const KvVisibility policy = visible_[command.what / 64 % visible_.size()];
  live_.push_back({next_id_++, oracle_->open(salt, policy)});
  Live& live = live_.back();
  expect(cache_->open(live.id, {salt_text(salt), policy}).ok(), "a new sequence is refused");
  expect(!cache_->open(live.id).ok(), "a sequence is opened twice");

  const std::int64_t found = cache_->find(prompt, {salt_text(salt), policy}).tokens;
  const std::int64_t hit = cache_->reuse(live.id, prompt), expected = oracle_->expected_hit(live.model, prompt);
  expect(found == hit, "looking finds something else than taking over");
  expect(hit <= expected, "a longer prefix was found than anybody computed");
  expect(!roomy_ || hit == expected, "a prefix that is there was not found");
  oracle_->attach(live.model, prompt, hit);
  asked_tokens_ += prompt.size();
  hit_tokens_ += static_cast<std::uint64_t>(hit);
  return live;
}

void Machine::open(const Command& command) {
  std::vector<TokenId> prompt;
  Live& live = open_sequence(command, prompt);
  touched_ = &live;
  const auto rest = std::span(prompt).subspan(index(live.model.length()));
  extend(live, rest, std::ssize(rest));
}

void Machine::look_up(const Command& command) {
  std::vector<TokenId> prompt;
  check(open_sequence(command, prompt));
  close(live_.size() - 1);
}

void Machine::append(const Command& command, bool rejects) {
  Live& live = pick(command.a);
  touched_ = &live;
  const std::vector<TokenId> tokens = next_tokens(live, step_size(command.b), command.c);
  extend(live, tokens, rejects ? command.c % (std::ssize(tokens) + 1) : std::ssize(tokens));
}

void Machine::refused(const Error& error) {
  expect(!roomy_ && error.code == Errc::out_of_memory, "memory runs out where there is plenty");
  for (Live& live : live_) check(live);
}

Result<StepPlan> Machine::prepare(std::span<const StepWant> wants) {
  const bool could = cache_->could_prepare(wants);
  const std::uint64_t evicted = cache_->stats().counters.evicted_pages;
  auto plan = cache_->prepare(wants);
  expect(plan.ok() == could, "a step succeeds that could not, or the reverse");
  if (plan.ok()) return plan;
  expect(cache_->stats().counters.evicted_pages == evicted, "pages leave in vain");
  if (operations_ % 4 != 0) return plan;
  // Nor would it have helped, unless it spares a copy.
  for (const PageRef* page : cache_->held_pages()) {
    for (const StepWant& want : wants) {
      const StepWant nothing{want.id, 0};
      const auto look = cache_->prepare({&nothing, 1});
      const std::int64_t length = cache_->length(want.id), open = length / kPageTokens;
      if (length % kPageTokens == 0) continue;
      for (const KvTable& table : look->tables[0]) {
        if (table.pages[open].wide == page->data() && page->use_count() > 1) return plan;
      }
    }
  }
  cache_->forget_unused();
  expect(!cache_->prepare(wants).ok(), "memory runs out while pages lie unused");
  return plan;
}

// The slow way: the cache writes and encodes.
bool Machine::extend(Live& live, std::span<const TokenId> tokens, std::int64_t accepted) {
  // A step that was prepared and dropped is none.
  const StepWant want{live.id, std::ssize(tokens)};
  if (const auto dropped = prepare({&want, 1}); !dropped.ok()) {
    refused(dropped.error());
    return false;
  }
  History drafted = live.model.history;
  drafted.push(tokens);
  Floats keys, values;
  for (std::int64_t layer = 0; layer < std::ssize(cache_->layer_map()); ++layer) {
    const KvLayerRef place = cache_->layer_map()[index(layer)];
    const KvGroupLayout& layout = cache_->layouts()[index(place.group)];
    const auto fill = [&](Stream stream, Floats& rows) {
      const std::int64_t dim = stream_of(layout.wide, stream).dim;
      rows.resize(tokens.size() * index(layout.kv_heads * dim));
      float* row = rows.data();
      for (std::int64_t p = live.model.length(); p < drafted.length(); ++p) {
        for (std::int64_t head = 0; head < layout.kv_heads; ++head, row += dim) {
          computed_row(drafted.hash(p), place.group, place.layer, head, stream, dim, row);
        }
      }
    };
    fill(Stream::keys, keys);
    fill(Stream::values, values);
    expect(cache_->append(live.id, layer, keys, values, std::ssize(tokens)).ok(), "memory runs out within a step");
  }
  const auto kept = tokens.first(index(accepted));
  cache_->advance(live.id, kept);
  oracle_->commit(live.model, kept);
  return true;
}

void Machine::copy_pages(const StepPlan& plan) {
  for (const StepPlan::Copy& copy : plan.copies) {
    copy_tokens(cache_->layouts()[index(copy.group)], copy.page.from, copy.page.to, copy.page.tokens);
  }
}

// As kernels do it: rows into wide pages, and every page that is full, accepted or not, encoded.
void Machine::write_rows(const Live& live, const History& drafted, std::span<const KvTable> tables) {
  for (std::size_t g = 0; g < tables.size(); ++g) {
    const KvGroupLayout& layout = cache_->layouts()[g];
    PageBytes::for_each_tile(layout, [&](std::int64_t layer, std::int64_t head, Stream s) {
      const KvStreamLayout& stream = stream_of(layout.wide, s);
      Floats row(index(stream.dim));
      for (std::int64_t p = live.model.length(); p < drafted.length(); ++p) {
        computed_row(drafted.hash(p), static_cast<std::int64_t>(g), layer, head, s, stream.dim, row.data());
        turn(layout, s, stream.dim, row.data());
        write_token(stream.format, stream.order, stream.tile(tables[g].pages[p / kPageTokens].wide, layer, head),
                    p % kPageTokens, row.data(), stream.dim);
      }
      for (std::int64_t page = live.model.length() / kPageTokens; page < drafted.length() / kPageTokens; ++page) {
        const KvTableEntry& entry = tables[g].pages[page];
        if (!layout.packs(page)) continue;
        PageBytes::encode(layout.packed, layer, head, s, PageBytes::decode(layout.wide, entry.wide, layer, head, s),
                          entry.packed);
      }
    });
  }
}

void Machine::append_pair(const Command& command) {
  if (live_.size() < 2) return append(command, true);
  const std::size_t first = command.a % live_.size();
  Live* const pair[] = {&live_[first], &live_[(first + 1 + command.c % (live_.size() - 1)) % live_.size()]};
  touched_ = pair[0];
  std::vector<StepWant> wants;
  std::vector<std::vector<TokenId>> tokens;
  for (std::size_t i = 0; i < 2; ++i) {
    tokens.push_back(next_tokens(*pair[i], step_size(static_cast<std::uint8_t>(command.b + i * 97)), command.c));
    wants.push_back({pair[i]->id, std::ssize(tokens[i])});
  }
  {
    const auto plan = prepare(wants);
    if (!plan.ok()) return refused(plan.error());
    copy_pages(*plan);
    for (std::size_t i = 0; i < 2; ++i) {
      History drafted = pair[i]->model.history;
      drafted.push(tokens[i]);
      write_rows(*pair[i], drafted, plan->tables[i]);
    }
  }
  for (std::size_t i = 0; i < 2; ++i) {
    const std::size_t accepted = command.b % 3 == 0 ? command.c % (tokens[i].size() + 1) : tokens[i].size();
    cache_->commit(pair[i]->id, std::span(tokens[i]).first(accepted));
    oracle_->commit(pair[i]->model, std::span(tokens[i]).first(accepted));
  }
  check(*pair[1]);
}

void Machine::prepare_in_vain(const Command& command) {
  const StepWant want{pick(command.a).id, step_size(command.b)};
  const auto plan = prepare({&want, 1});
  if (!plan.ok()) return refused(plan.error());
  if (command.c % 2 == 0) copy_pages(*plan);
  if (command.c % 3 == 0) cache_->commit(want.id, {});
}

void Machine::fork(const Command& command) {
  if (live_.size() == kMostLive) return append(command, false);
  Live copy{next_id_++, pick(command.a).model};
  expect(cache_->fork(pick(command.a).id, copy.id).ok(), "a fork is refused");
  live_.push_back(std::move(copy));
  touched_ = &live_.back();
}

void Machine::rollback(const Command& command) {
  Live& live = pick(command.a);
  touched_ = &live;
  const std::int64_t length = live.model.length();
  const std::int64_t back = command.b < 128 ? command.c % 8 : command.c * length / 255;
  const std::int64_t target = std::max<std::int64_t>(0, length - back);
  const auto reached = cache_->rollback(live.id, target);
  expect(reached.ok() && *reached == oracle_->rollback(live.model, target), "rolled back to another length");
}

void Machine::drop_front(const Command& command) {
  Live& live = pick(command.a);
  touched_ = &live;
  const std::int64_t position = live.model.length() * (command.b % 32) / 31;
  expect(cache_->drop_front(live.id, position).ok(), "a front cannot be dropped");
  expect(!cache_->drop_front(live.id, live.model.length() + 1).ok(), "more is dropped than there is");
  oracle_->drop_front(live.model, position);
}

void Machine::checkpoint(const Command& command) {
  Live& live = pick(command.a);
  touched_ = &live;
  cache_->checkpoint(live.id);
  oracle_->checkpoint(live.model);
}

void Machine::evict(const Command& command) {
  Live& live = pick(command.a);
  touched_ = &live;
  if (command.c % 8 != 0) {
    Floats sums;
    for (const KvLayerRef& place : cache_->layer_map()) {
      const std::int64_t count = cache_->layouts()[index(place.group)].kv_heads * live.model.cached(index(place.group));
      for (std::int64_t i = 0; i < count; ++i) sums.push_back(static_cast<float>(mix(command.c + sums.size()) % 5) / 4);
    }
    cache_->add_scores(live.id, sums);
    oracle_->add_scores(live.model, sums, cache_->layer_map());
  }
  const RetentionPolicy& policy = *policies_[command.b % policies_.size()];
  const auto eviction = policy.evict(cache_->retention_state(live.id, live.model.length()));
  if (!eviction) return;
  if (const auto evicted = cache_->evict(live.id, *eviction, policy); !evicted.ok()) return refused(evicted.error());
  oracle_->evict(live.model, *eviction, policy);
}

void Machine::close(std::size_t place) {
  if (remembered_.size() == kMostRemembered) remembered_.erase(remembered_.begin());
  remembered_.push_back(live_[place].model.history);
  cache_->release(live_[place].id);
  expect(!cache_->contains(live_[place].id), "a released sequence is still there");
  live_.erase(live_.begin() + static_cast<std::ptrdiff_t>(place));
}

void Machine::release(const Command& command) { close(command.a % live_.size()); }

void Machine::clear() {
  cache_->clear();
  live_.clear();
}

}  // namespace quire::property
