#include "lab/plan_cache.h"

#include <algorithm>

#include "core/checked_math.h"
#include "core/fail.h"
#include "engine/cache_setup.h"

namespace quire {
namespace {

CheckedSize size(std::int64_t n) { return CheckedSize(static_cast<std::uint64_t>(n)); }

CheckedSize of_pages(const KvGroupLayout& group, CheckedSize pages) { return size(group.packed.bytes) * pages; }

// A page's bytes are even among its tokens.
CheckedSize of_tokens(const KvGroupLayout& group, CheckedSize tokens) {
  return (of_pages(group, tokens) + size(kPageTokens - 1)) / static_cast<std::uint64_t>(kPageTokens);
}

std::uint64_t or_too_much(CheckedSize bytes) { return bytes.get().value_or(kTooManyBytes); }

}  // namespace

Result<CacheDemand> CacheDemand::create(const PlanModel& model, const CacheChoice& choice) {
  QUIRE_CHECK_OK(check_model(model));
  if (choice.share_layers < 1 || choice.share_layers > model.layers) {
    return fail(Errc::invalid_argument, "{} layers that share one cache; '{}' has {}", choice.share_layers, model.name,
                model.layers);
  }
  if (!(choice.shared_prefix >= 0 && choice.shared_prefix <= 1)) {
    return fail(Errc::invalid_argument, "a shared prefix of {} of every sequence; expected 0 to 1",
                choice.shared_prefix);
  }
  CacheDemand demand;
  demand.shared_prefix_ = choice.shared_prefix;
  QUIRE_TRY(demand.policy_, parse_policy(choice.settings.policy));
  QUIRE_TRY(const CacheSetup setup, set_up_cache(choice.settings));
  const auto add_group = [&](std::int64_t layers, std::int64_t window) -> Result<void> {
    if (layers == 0) return {};
    KvGroupSpec spec;
    spec.layers = (layers + choice.share_layers - 1) / choice.share_layers;
    spec.latent = model.is_latent();
    spec.kv_heads = spec.latent ? 1 : model.kv_heads;
    spec.key_dim = spec.latent ? model.rope : model.head_dim;
    spec.value_dim = spec.latent ? model.latent : model.head_dim;
    spec.keys = setup.choice.keys;
    spec.values = setup.choice.values;
    spec.visible = {0, window};
    spec.sink_pages = setup.choice.sink_pages;
    spec.recent_pages = setup.choice.recent_pages;
    QUIRE_TRY(const KvGroupLayout layout, make_layout(spec));
    demand.groups_.push_back(layout);
    return {};
  };
  const std::int64_t local = choice.own_windows ? model.window_layers : 0;
  QUIRE_CHECK_OK(add_group(model.layers - local, 0));
  QUIRE_CHECK_OK(add_group(local, model.window));
  return demand;
}

double CacheDemand::bytes_per_token() const {
  double bytes = 0;
  for (const KvGroupLayout& group : groups_) bytes += static_cast<double>(group.packed.bytes) / kPageTokens;
  return bytes;
}

CacheDemand::Held CacheDemand::held(const KvGroupLayout& group, std::int64_t context) const {
  const auto prefix = static_cast<std::int64_t>(static_cast<double>(context) * shared_prefix_);
  if (group.visible.window == 0) {
    if (const auto eviction = policy_->evict({context, context, 0, 0})) {
      return {eviction->keep + context - eviction->first_position, 0};
    }
  }
  const KvVisibility visible = narrower(group.visible, policy_->visible());
  if (visible.sees_all(context - 1)) return {context, prefix};
  const std::int64_t left_window = std::max<std::int64_t>(0, prefix - (context - visible.window));
  return {visible.sinks + visible.window, std::min(prefix, visible.sinks) + left_window};
}

std::int64_t CacheDemand::kept_tokens(std::int64_t context) const {
  std::int64_t most = 0;
  for (const KvGroupLayout& group : groups_) most = std::max(most, held(group, context).tokens);
  return most;
}

std::uint64_t CacheDemand::bytes(std::int64_t context, std::int64_t sequences) const {
  CheckedSize bytes = 0;
  for (const KvGroupLayout& group : groups_) {
    const auto [tokens, shared] = held(group, context);
    bytes = bytes + of_tokens(group, size(shared) + size(sequences) * size(tokens - shared));
  }
  return or_too_much(bytes);
}

std::uint64_t CacheDemand::paged_bytes(std::int64_t context, std::int64_t sequences) const {
  CheckedSize bytes = 0;
  for (const KvGroupLayout& group : groups_) {
    const std::int64_t shared = held(group, context).shared / kPageTokens;
    std::int64_t gone = shared, kept = 0;
    if (const auto eviction = policy_->evict({context, context, 0, 0}); eviction && group.visible.window == 0) {
      gone = eviction->first_position / kPageTokens;
      kept = pages_for(eviction->keep);
    }
    const std::uint64_t whole = sequence_bytes(group, context, policy_->visible());
    const std::uint64_t less = of_pages(group, size(gone)).get().value_or(whole);
    const CheckedSize own = CheckedSize(whole - std::min(whole, less)) + of_pages(group, size(kept));
    bytes = bytes + of_pages(group, size(shared)) + size(sequences) * own;
  }
  return or_too_much(bytes);
}

std::uint64_t CacheDemand::preallocated_bytes(std::int64_t context) const {
  CheckedSize bytes = 0;
  for (const KvGroupLayout& group : groups_) bytes = bytes + of_tokens(group, size(context));
  return or_too_much(bytes);
}

namespace {

// The largest count in [0, most] that fits, where more never takes less.
template <class Fits>
std::int64_t largest(std::int64_t most, const Fits& fits) {
  std::int64_t low = 0, high = most;
  while (low < high) {
    const std::int64_t middle = low + (high - low + 1) / 2;
    fits(middle) ? low = middle : high = middle - 1;
  }
  return low;
}

}  // namespace

std::int64_t CacheDemand::sequences_within(std::uint64_t memory, std::int64_t context) const {
  return largest(kMostPlannedSequences, [&](std::int64_t n) { return bytes(context, n) <= memory; });
}

std::int64_t CacheDemand::paged_sequences_within(std::uint64_t memory, std::int64_t context) const {
  const std::uint64_t none = paged_bytes(context, 0), each = paged_bytes(context, 1) - none;
  if (none > memory) return 0;
  return each == 0 ? kMostPlannedSequences
                   : static_cast<std::int64_t>(std::min<std::uint64_t>(kMostPlannedSequences, (memory - none) / each));
}

std::int64_t CacheDemand::context_within(std::uint64_t memory, std::int64_t sequences) const {
  return largest(kMostPlannedTokens, [&](std::int64_t n) { return n == 0 || bytes(n, sequences) <= memory; });
}

}  // namespace quire
