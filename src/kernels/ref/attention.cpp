// The truth about a cache: tiles are decoded to 32-bit floats, then one loop per formula.
#include "kernels/ref/attention.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <vector>

#include "core/check.h"
#include "core/planted.h"
#include "kv/hadamard.h"
#include "kv/query_codes.h"

namespace quire {
namespace {

using Floats = std::vector<float>;

Floats decode(const KvStreamLayout& stream, const std::byte* page, std::int64_t layer, std::int64_t head) {
  Floats rows(static_cast<std::size_t>(kPageTokens * stream.dim));
  info(stream.format).decode(stream.order, stream.tile(page, layer, head), stream.dim, rows.data());
  return rows;
}

// One head of one page, decoded.
struct DecodedTile {
  Floats keys;    // [32, query_dim]
  Floats values;  // [32, values.dim]
};

DecodedTile decode(const KvPageLayout& layout, const std::byte* page, std::int64_t layer, std::int64_t head) {
  QUIRE_ASSERT(page != nullptr, "a visible page must be there");
  DecodedTile tile{decode(layout.keys, page, layer, head), decode(layout.values, page, layer, head)};
  if (!layout.latent) return tile;
  Floats keys;
  for (std::int64_t t = 0; t < kPageTokens; ++t) {
    keys.insert(keys.end(), tile.values.begin() + t * layout.values.dim,
                tile.values.begin() + (t + 1) * layout.values.dim);
    keys.insert(keys.end(), tile.keys.begin() + t * layout.keys.dim, tile.keys.begin() + (t + 1) * layout.keys.dim);
  }
  tile.keys = std::move(keys);
  return tile;
}

// A token that a query sees.
struct Seen {
  const float* key;
  const float* value;
  bool sink;
  bool meets_codes;   // its key is scored with the query rounded
  std::int64_t slot;  // kept tokens first, then positions from table.first_position
};

// One KV head of one sequence. Tiles are decoded when they are first seen.
class HeadReader {
 public:
  HeadReader(const KvTarget& target, const KvTable& table, std::int64_t head)
      : group_(*target.group), table_(table), layer_(target.layer), head_(head) {}

  // What a query at `position` sees, in order. Pointers live as long as the reader.
  std::vector<Seen> seen_from(std::int64_t position) {
    std::vector<Seen> seen;
    const KvPageLayout& kept_layout = group_.lossless ? group_.wide : group_.packed;
    for (std::int64_t i = 0; i < table_.kept_tokens; ++i) {
      const std::byte* page = table_.kept[i / kPageTokens];
      seen.push_back(token(kept_layout, page, i % kPageTokens, false, i));
    }
    for (std::int64_t p = table_.first_position; p <= position + planted(Bug::one_slot_too_many); ++p) {
      const bool sink = p < table_.visible.sinks_at(position);
      if (!sink && p < table_.visible.first(position)) continue;
      const std::int64_t index = p / kPageTokens;
      const bool wide = group_.reads_wide(index, position / kPageTokens);
      const KvTableEntry& entry = table_.pages[index];
      seen.push_back(token(wide ? group_.wide : group_.packed, wide ? entry.wide : entry.packed, p % kPageTokens, sink,
                           table_.kept_tokens + p - table_.first_position));
    }
    return seen;
  }

 private:
  Seen token(const KvPageLayout& layout, const std::byte* page, std::int64_t t, bool sink, std::int64_t slot) {
    auto found = tiles_.find(page);
    if (found == tiles_.end()) found = tiles_.emplace(page, decode(layout, page, layer_, head_)).first;
    return {found->second.keys.data() + t * layout.query_dim(), found->second.values.data() + t * layout.values.dim,
            sink, meets_query_codes(layout.keys.format, layout.keys.order, layout.latent), slot};
  }

  const KvGroupLayout& group_;
  const KvTable& table_;
  std::int64_t layer_, head_;
  std::map<const std::byte*, DecodedTile> tiles_;
};

// A query, and the same as codes and scales make it.
class Query {
 public:
  Query(const float* q, std::int64_t dim, float scale) : plain_(q, q + dim) {
    for (float& x : plain_) x *= scale;
    rounded_ = plain_;
    constexpr auto kGroup = static_cast<std::size_t>(kQueryGroup);
    rounded_.resize((plain_.size() + kGroup - 1) / kGroup * kGroup);
    for (std::size_t d = 0; d < rounded_.size(); d += kGroup) {
      std::array<std::int8_t, kGroup> codes{};
      const float unit = round_query(&rounded_[d], kGroup, codes.data());
      for (std::size_t i = 0; i < kGroup; ++i) rounded_[d + i] = unit * codes[i];
    }
  }

  float score(const Seen& token, float softcap) const {
    const Floats& q = token.meets_codes ? rounded_ : plain_;
    float score = 0;
    for (std::size_t d = 0; d < plain_.size(); ++d) score += q[d] * token.key[d];
    return softcap > 0 ? softcap * std::tanh(score / softcap) : score;
  }

 private:
  Floats plain_, rounded_;
};

}  // namespace

void ref_append(const AppendParams& p, ThreadPool&) {
  const KvGroupLayout& group = *p.kv.group;
  const KvPageLayout& wide = group.wide;
  for (const KvRows& sequence : p.kv.sequences) {
    for (std::int64_t r = 0; r < sequence.rows; ++r) {
      const std::int64_t position = sequence.first_position + r;
      const std::int64_t slot = (position + planted(Bug::written_one_off)) % kPageTokens;
      std::byte* page = sequence.table.pages[position / kPageTokens].wide;
      QUIRE_ASSERT(page != nullptr, "a page must be there to write to");
      for (std::int64_t h = 0; h < group.kv_heads; ++h) {
        const std::int64_t from = (sequence.first_row + r) * group.kv_heads + h;
        write_token(wide.keys.format, wide.keys.order, wide.keys.tile(page, p.kv.layer, h), slot,
                    p.keys + from * wide.keys.dim, wide.keys.dim);
        write_token(wide.values.format, wide.values.order, wide.values.tile(page, p.kv.layer, h), slot,
                    p.values + from * wide.values.dim, wide.values.dim);
      }
    }
  }
}

void ref_encode(const EncodeParams& p, ThreadPool&) {
  const KvGroupLayout& group = *p.kv.group;
  if (group.lossless) return;
  const auto encode = [](const KvStreamLayout& stream, std::byte* page, std::int64_t layer, std::int64_t head,
                         const Floats& rows) {
    info(stream.format).encode(stream.order, rows.data(), stream.dim, stream.tile(page, layer, head));
  };
  for (const KvRows& sequence : p.kv.sequences) {
    const std::int64_t end = (sequence.first_position + sequence.rows) / kPageTokens;
    for (std::int64_t i = std::max(sequence.first_position / kPageTokens, group.sink_pages); i < end; ++i) {
      const KvTableEntry& entry = sequence.table.pages[i];
      QUIRE_ASSERT(entry.wide != nullptr && entry.packed != nullptr, "a page that is full needs a place to go");
      for (std::int64_t h = 0; h < group.kv_heads; ++h) {
        encode(group.packed.keys, entry.packed, p.kv.layer, h, decode(group.wide.keys, entry.wide, p.kv.layer, h));
        encode(group.packed.values, entry.packed, p.kv.layer, h, decode(group.wide.values, entry.wide, p.kv.layer, h));
      }
    }
  }
}

void ref_attention(const AttentionParams& p, ThreadPool&) {
  const KvGroupLayout& group = *p.kv.group;
  const std::int64_t dim = group.wide.query_dim(), value_dim = group.wide.values.dim;
  const std::int64_t heads_per_kv = p.q_heads / group.kv_heads;
  for (const KvRows& sequence : p.kv.sequences) {
    for (std::int64_t kv_head = 0; kv_head < group.kv_heads; ++kv_head) {
      HeadReader reader(p.kv, sequence.table, kv_head);
      for (std::int64_t r = 0; r < sequence.rows; ++r) {
        const std::vector<Seen> seen = reader.seen_from(sequence.first_position + r);
        for (std::int64_t h = kv_head * heads_per_kv; h < (kv_head + 1) * heads_per_kv; ++h) {
          const std::int64_t row = (sequence.first_row + r) * p.q_heads + h;

          const Query query(p.q + row * dim, dim, p.scale);
          const Query sink_query(p.q_sinks != nullptr ? p.q_sinks + row * dim : p.q + row * dim, dim, p.scale);
          Floats weights;
          float max = -std::numeric_limits<float>::infinity();
          for (const Seen& token : seen) {
            weights.push_back((token.sink ? sink_query : query).score(token, p.softcap));
            max = std::max(max, weights.back());
          }
          float sum = 0;
          for (float& w : weights) sum += w = std::exp(w - max);
          if (p.log_sum_exp) p.log_sum_exp[row] = max + std::log(sum);

          float* out = p.out + row * value_dim;
          std::fill_n(out, value_dim, 0.f);
          for (std::size_t i = 0; i < seen.size(); ++i) {
            const float w = weights[i] / sum;
            for (std::int64_t d = 0; d < value_dim; ++d) out[d] += w * seen[i].value[d];
          }
        }
      }
    }
  }
}

void ref_score(const ScoreParams& p, ThreadPool&) {
  const KvGroupLayout& group = *p.kv.group;
  QUIRE_ASSERT(p.kv.sequences.size() == 1, "one sequence at a time");
  const KvRows& sequence = p.kv.sequences[0];
  QUIRE_ASSERT(sequence.table.visible.window == 0, "scores are for sequences that see everything");
  const std::int64_t dim = group.wide.query_dim();
  const std::int64_t heads_per_kv = p.q_heads / group.kv_heads;
  const std::int64_t slots =
      sequence.table.kept_tokens + sequence.first_position + sequence.rows - sequence.table.first_position;
  for (std::int64_t kv_head = 0; kv_head < group.kv_heads; ++kv_head) {
    HeadReader reader(p.kv, sequence.table, kv_head);
    for (std::int64_t r = 0; r < sequence.rows; ++r) {
      const std::vector<Seen> seen = reader.seen_from(sequence.first_position + r);
      for (std::int64_t h = kv_head * heads_per_kv; h < (kv_head + 1) * heads_per_kv; ++h) {
        const std::int64_t row = (sequence.first_row + r) * p.q_heads + h;
        const Query query(p.q + row * dim, dim, p.scale);
        for (const Seen& token : seen) {
          p.sums[kv_head * slots + token.slot] += std::exp(query.score(token, p.softcap) - p.log_sum_exp[row]);
        }
      }
    }
  }
}

void ref_hadamard(const HadamardParams& p, ThreadPool&) {
  for (std::int64_t r = 0; r < p.rows; ++r) hadamard(p.x + r * p.dim, p.dim);
}

}  // namespace quire
