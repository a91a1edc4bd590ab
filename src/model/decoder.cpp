#include "model/decoder.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "core/check.h"
#include "core/planted.h"
#include "kernels/ref/dequantize.h"

namespace quire {
namespace {

void grow(std::vector<float>& v, std::int64_t size) {
  if (std::ssize(v) < size) v.resize(static_cast<std::size_t>(size));
}

// What a window leaves out needs no scores to be let go.
bool asks_scores(const BatchSequence& sequence, std::size_t group) {
  return sequence.scores.rows > 0 && sequence.tables[group].visible.window == 0;
}

// Worth it when a pass has more rows than somebody looks at. Who asks for scores asks about all of them.
bool leaves_rows_out(const Batch& batch) {
  return batch.logits.size() + batch.hidden.size() < batch.tokens.size() &&
         std::ranges::none_of(batch.sequences, [](const BatchSequence& s) { return s.scores.rows > 0; });
}

}  // namespace

Decoder::Decoder(const ModelConfig& config, const Weights& weights, const Ops& ops, ThreadPool& pool)
    : config_(config), weights_(weights), ops_(ops), pool_(pool) {
  for (const RopeConfig& rope : config.ropes) {
    RopeTable& table = ropes_.emplace_back();
    for (int i = 0; i < config.rope_dim / 2; ++i) {
      double frequency = std::pow(rope.base, -2.0 * i / config.rope_dim) / rope.linear_factor;
      if (rope.use_factors && !weights.rope_factors.empty()) {
        frequency /= static_cast<double>(weights.rope_factors[static_cast<std::size_t>(i)]);
      }
      table.frequencies.push_back(frequency);
    }
  }
}

std::span<const float> Decoder::forward(const Batch& batch) {
  QUIRE_ASSERT(!batch.tokens.empty(), "an empty batch");
  QUIRE_ASSERT(std::ssize(batch.layers) == config_.layers, "a cache of another model");
  place_rows(batch);
  embed(batch);
  fill_rope_tables();
  for (std::size_t i = 0; i < weights_.layers.size(); ++i) {
    attend(i, batch);
    mlp(weights_.layers[i]);
  }
  hidden_.resize(batch.hidden.size() * static_cast<std::size_t>(config_.width));
  final_norm(batch.hidden, hidden_.data());
  project_to_vocabulary(batch);
  return {logits_.data(), batch.logits.size() * static_cast<std::size_t>(config_.vocabulary)};
}

void Decoder::place_rows(const Batch& batch) {
  positions_.clear();
  rows_left_out_.clear();
  placed_.assign(batch.groups.size(), {});
  written_.assign(batch.groups.size(), {});
  for (const BatchSequence& sequence : batch.sequences) {
    const std::int64_t first_row = std::ssize(positions_);
    for (std::size_t group = 0; group < batch.groups.size(); ++group) {
      placed_[group].push_back({first_row, sequence.rows, sequence.first_position, sequence.tables[group]});
      written_[group].push_back(placed_[group].back());
      written_[group].back().first_position += sequence.write_shift;
    }
    for (std::int64_t r = 0; r < sequence.rows; ++r) positions_.push_back(sequence.first_position + r);
  }
  QUIRE_ASSERT(positions_.size() == batch.tokens.size(), "sequences that do not cover the batch");
  place_sinks();
}

// Seen from the query, sinks lie right before the window: as if what was dropped had never been.
void Decoder::place_sinks() {
  sink_positions_.assign(placed_.size(), {});
  for (std::size_t group = 0; group < placed_.size(); ++group) {
    for (const KvRows& sequence : placed_[group]) {
      const KvVisibility& visible = sequence.table.visible;
      if (visible.sinks == 0) continue;
      std::vector<std::int64_t>& seen = sink_positions_[group];
      if (seen.empty()) seen = positions_;
      for (std::int64_t r = sequence.first_row; r < sequence.first_row + sequence.rows; ++r) {
        std::int64_t& position = seen[static_cast<std::size_t>(r)];
        position = std::min(position, visible.sinks + visible.window - 1);
      }
    }
  }
}

// Of each sequence only the rows from the first wanted one on are left, moved together in the stream and the branch.
void Decoder::leave_wanted_rows(const Batch& batch) {
  const std::int64_t width = config_.width;
  std::vector<std::int64_t> positions;
  std::vector<std::vector<KvRows>> placed(placed_.size());
  rows_left_out_.assign(positions_.size(), 0);
  for (std::size_t i = 0; i < batch.sequences.size(); ++i) {
    const std::int64_t begin = placed_[0][i].first_row, end = begin + placed_[0][i].rows;
    const auto first_in = [&](std::span<const std::int64_t> wanted) {
      const auto found = std::ranges::lower_bound(wanted, begin);
      return found == wanted.end() ? end : std::min(*found, end);
    };
    const std::int64_t first = std::min(first_in(batch.logits), first_in(batch.hidden)), to = std::ssize(positions);
    if (first == end) continue;
    for (std::size_t group = 0; group < placed_.size(); ++group) {
      KvRows rows = placed_[group][i];
      rows.first_position += first - begin;
      rows.first_row = to;
      rows.rows = end - first;
      placed[group].push_back(rows);
    }
    for (std::int64_t row = first; row < end; ++row) {
      positions.push_back(positions_[static_cast<std::size_t>(row)]);
      rows_left_out_[static_cast<std::size_t>(row)] = first - to;
    }
    for (std::vector<float>* x : {&stream_, &branch_}) {
      std::copy_n(x->begin() + first * width, (end - first) * width, x->begin() + to * width);
    }
  }
  positions_ = std::move(positions);
  placed_ = std::move(placed);
  place_sinks();
  fill_rope_tables();
}

void Decoder::embed(const Batch& batch) {
  const std::int64_t rows = std::ssize(batch.tokens), width = config_.width;
  grow(stream_, rows * width);
  grow(branch_, rows * width);
  for (std::int64_t r = 0; r < rows; ++r) {
    const TokenId token = batch.tokens[static_cast<std::size_t>(r)];
    QUIRE_ASSERT(token >= 0 && token < config_.vocabulary, "a token outside the vocabulary");
    float* row = stream_.data() + r * width;
    dequantize(weights_.embedding.type, weights_.embedding.row(token), row, width);
    for (std::int64_t i = 0; i < width; ++i) row[i] *= config_.embedding_scale;
    if (config_.positions == PositionKind::learned) {
      float* position = branch_.data() + r * width;
      dequantize(weights_.positions.type, weights_.positions.row(positions_[static_cast<std::size_t>(r)]), position,
                 width);
      for (std::int64_t i = 0; i < width; ++i) row[i] += position[i];
    }
  }
}

// Angles in double: at position 100,000 a float angle is off by more than a hundredth of a radian.
void Decoder::fill_angles(RopeAngles& angles, const std::vector<double>& frequencies,
                          const std::vector<std::int64_t>& positions) {
  const std::int64_t rows = std::ssize(positions), half = std::ssize(frequencies);
  grow(angles.cos, rows * half);
  grow(angles.sin, rows * half);
  for (std::int64_t r = 0; r < rows; ++r) {
    const auto position = static_cast<double>(planted(Bug::rope_by_row) ? r : positions[static_cast<std::size_t>(r)]);
    for (std::int64_t i = 0; i < half; ++i) {
      const double angle = position * frequencies[static_cast<std::size_t>(i)];
      angles.cos[static_cast<std::size_t>(r * half + i)] = static_cast<float>(std::cos(angle));
      angles.sin[static_cast<std::size_t>(r * half + i)] = static_cast<float>(std::sin(angle));
    }
  }
}

void Decoder::fill_rope_tables() {
  for (RopeTable& table : ropes_) {
    fill_angles(table.angles, table.frequencies, positions_);
    table.for_sinks.resize(sink_positions_.size());
    for (std::size_t group = 0; group < sink_positions_.size(); ++group) {
      fill_angles(table.for_sinks[group], table.frequencies, sink_positions_[group]);
    }
  }
}

// After the last layer nobody reads the rows that nobody wants: they only leave their keys and values.
void Decoder::attend(std::size_t layer, const Batch& batch) {
  const LayerWeights& w = weights_.layers[layer];
  const KvLayerRef place = batch.layers[layer];
  const auto group = static_cast<std::size_t>(place.group);
  const KvGroupLayout& layout = batch.groups[group];
  // A layer that shares another's place reads what that one wrote.
  const bool owner =
      std::ranges::find(batch.layers, place) == batch.layers.begin() + static_cast<std::ptrdiff_t>(layer);
  const bool last = layer + 1 == weights_.layers.size() && leaves_rows_out(batch);
  const std::int64_t dim = config_.head_dim, q_width = config_.q_heads * dim, kv_width = config_.kv_heads * dim;
  std::int64_t rows = std::ssize(positions_);
  grow(q_, rows * q_width);
  grow(k_, rows * kv_width);
  grow(v_, rows * kv_width);
  grow(context_, rows * q_width);

  // The last layer keeps what is normed: queries are made of some of its rows, later.
  const NormParams normed = norm_params(w.attention_norm, stream_.data(), branch_.data(), rows, config_.width);
  if (last) ops_.norm(normed, pool_);
  const std::array<MatmulTarget, 3> kvq{{{&w.k.weight, w.k.bias_or_null(), k_.data()},
                                         {&w.v.weight, w.v.bias_or_null(), v_.data()},
                                         {&w.q.weight, w.q.bias_or_null(), q_.data()}}};
  const auto kv_targets = std::span(kvq).first(2), q_target = std::span(kvq).last(1);
  const auto first = !owner ? q_target : last ? kv_targets : std::span(kvq);
  if (last && owner) ops_.matmul({branch_.data(), rows, config_.width, first}, pool_);
  if (!last) ops_.matmul({nullptr, rows, config_.width, first, false, &normed}, pool_);
  if (owner) write_keys_and_values(layer, batch);
  if (last) {
    leave_wanted_rows(batch);
    rows = std::ssize(positions_);
    if (rows == 0) return;
    ops_.matmul({branch_.data(), rows, config_.width, q_target}, pool_);
  }
  turn_queries(layer, batch);

  const KvTarget kv{&layout, planted(Bug::layers_mixed) ? 0 : place.layer, placed_[group]};
  const bool sinks = !sink_positions_[group].empty();
  const bool scored =
      std::ranges::any_of(batch.sequences, [&](const BatchSequence& s) { return asks_scores(s, group); });
  if (scored) grow(log_sum_exp_, rows * config_.q_heads);
  ops_.attention({q_.data(), sinks ? q_sinks_.data() : nullptr, context_.data(), kv, config_.q_heads,
                  config_.attention_scale, config_.attention_softcap, scored ? log_sum_exp_.data() : nullptr},
                 pool_);
  if (scored) score(kv, layer, batch);
  if (info(layout.packed.values.format).rotated) {
    ops_.hadamard({context_.data(), rows * config_.q_heads, dim}, pool_);
  }
  const MatmulTarget output = into_stream(w.output);
  ops_.matmul({context_.data(), rows, q_width, {&output, 1}}, pool_);
  add_normed_to_stream(w.attention_post_norm, rows);
}

// Keys and values go into the cache first, and pages they complete are encoded: attention reads what the cache
// holds, rounded as it rounds, never what is still in these buffers.
void Decoder::write_keys_and_values(std::size_t layer, const Batch& batch) {
  const auto group = static_cast<std::size_t>(batch.layers[layer].group);
  const KvGroupLayout& layout = batch.groups[group];
  const std::int64_t rows = std::ssize(positions_), heads = rows * config_.kv_heads, dim = config_.head_dim;
  if (config_.qk_norm) norm(weights_.layers[layer].k_norm, k_.data(), k_.data(), heads, dim);
  if (const RopeTable* table = rope_of(layer)) rotate(table->angles, k_, rows, config_.kv_heads);
  if (info(layout.packed.keys.format).rotated) ops_.hadamard({k_.data(), heads, dim}, pool_);
  if (info(layout.packed.values.format).rotated) ops_.hadamard({v_.data(), heads, dim}, pool_);
  const std::int64_t place = planted(Bug::layers_mixed) ? 0 : batch.layers[layer].layer;
  ops_.append({k_.data(), v_.data(), {&layout, place, written_[group]}}, pool_);
  if (!layout.lossless) ops_.encode({{&layout, place, placed_[group]}}, pool_);
}

void Decoder::turn_queries(std::size_t layer, const Batch& batch) {
  const auto group = static_cast<std::size_t>(batch.layers[layer].group);
  const std::int64_t rows = std::ssize(positions_), heads = rows * config_.q_heads, dim = config_.head_dim;
  if (config_.qk_norm) norm(weights_.layers[layer].q_norm, q_.data(), q_.data(), heads, dim);
  const bool sinks = !sink_positions_[group].empty();
  if (sinks) q_sinks_.assign(q_.begin(), q_.begin() + static_cast<std::ptrdiff_t>(heads * dim));
  if (const RopeTable* table = rope_of(layer)) {
    rotate(table->angles, q_, rows, config_.q_heads);
    if (sinks) rotate(table->for_sinks[group], q_sinks_, rows, config_.q_heads);
  }
  if (info(batch.groups[group].packed.keys.format).rotated) {
    ops_.hadamard({q_.data(), heads, dim}, pool_);
    if (sinks) ops_.hadamard({q_sinks_.data(), heads, dim}, pool_);
  }
}

const Decoder::RopeTable* Decoder::rope_of(std::size_t layer) const {
  const bool rotates =
      config_.positions == PositionKind::rope_adjacent || config_.positions == PositionKind::rope_split;
  return rotates ? &ropes_[static_cast<std::size_t>(config_.layer[layer].rope)] : nullptr;
}

void Decoder::score(const KvTarget& kv, std::size_t layer, const Batch& batch) {
  for (std::size_t i = 0; i < batch.sequences.size(); ++i) {
    const AttentionScores& scores = batch.sequences[i].scores;
    if (!asks_scores(batch.sequences[i], static_cast<std::size_t>(batch.layers[layer].group))) continue;
    KvRows rows = kv.sequences[i];
    const std::int64_t skipped = rows.rows - scores.rows;
    const std::int64_t cached = rows.table.kept_tokens + rows.first_position + rows.rows - rows.table.first_position;
    rows.first_row += skipped;
    rows.first_position += skipped;
    rows.rows = scores.rows;
    ops_.score({q_.data(),
                log_sum_exp_.data(),
                {kv.group, kv.layer, {&rows, 1}},
                config_.q_heads,
                config_.attention_scale,
                config_.attention_softcap,
                scores.sums + static_cast<std::int64_t>(layer) * config_.kv_heads * cached},
               pool_);
  }
}

void Decoder::mlp(const LayerWeights& w) {
  const std::int64_t rows = std::ssize(positions_);
  if (rows == 0) return;
  grow(up_, rows * config_.ff_width);
  const NormParams normed = norm_params(w.mlp_norm, stream_.data(), branch_.data(), rows, config_.width);
  const MatmulTarget up{&w.up.weight, w.up.bias_or_null(), up_.data()}, down = into_stream(w.down);
  ActivateParams activated{config_.activation, up_.data(), nullptr, up_.data(), rows, config_.ff_width};
  if (config_.gated_mlp) {
    grow(gate_, rows * config_.ff_width);
    const std::array<MatmulTarget, 2> targets{{{&w.gate.weight, w.gate.bias_or_null(), gate_.data()}, up}};
    ops_.matmul({nullptr, rows, config_.width, targets, false, &normed}, pool_);
    activated.gate = gate_.data();
    activated.up = up_.data();
  } else {
    ops_.matmul({nullptr, rows, config_.width, {&up, 1}, false, &normed}, pool_);
  }
  ops_.matmul({nullptr, rows, config_.ff_width, {&down, 1}, false, nullptr, &activated}, pool_);
  add_normed_to_stream(w.mlp_post_norm, rows);
}

void Decoder::final_norm(std::span<const std::int64_t> rows, float* out) {
  for (const std::int64_t row : rows) {
    const std::int64_t left_out = rows_left_out_.empty() ? 0 : rows_left_out_[static_cast<std::size_t>(row)];
    QUIRE_ASSERT(row >= left_out && row - left_out < std::ssize(positions_), "a row that is not in the batch");
    norm(weights_.output_norm, stream_.data() + (row - left_out) * config_.width, out, 1, config_.width);
    out += config_.width;
  }
}

// Only the rows somebody samples from: the vocabulary is the largest matrix of a small model.
void Decoder::project_to_vocabulary(const Batch& batch) {
  const std::int64_t wanted = std::ssize(batch.logits), width = config_.width, vocabulary = config_.vocabulary;
  if (wanted == 0) return;
  grow(logits_, wanted * vocabulary);
  final_norm(batch.logits, branch_.data());
  const MatmulTarget target{&weights_.output.weight, weights_.output.bias_or_null(), logits_.data()};
  // What rounds here goes straight into the probabilities: a quarter of all that 8 bits would cost.
  ops_.matmul({branch_.data(), wanted, width, {&target, 1}, /*exact=*/true}, pool_);
  if (config_.logit_softcap > 0) {
    for (float& x : std::span(logits_).first(static_cast<std::size_t>(wanted * vocabulary))) {
      x = config_.logit_softcap * std::tanh(x / config_.logit_softcap);
    }
  }
}

NormParams Decoder::norm_params(const Norm& norm, const float* x, float* out, std::int64_t rows,
                                std::int64_t dim) const {
  const float* bias = norm.bias.empty() ? nullptr : norm.bias.data();
  return {config_.norm, x, out, norm.weight.data(), bias, config_.epsilon, rows, dim};
}

void Decoder::norm(const Norm& norm, const float* x, float* out, std::int64_t rows, std::int64_t dim) {
  ops_.norm(norm_params(norm, x, out, rows, dim), pool_);
}

void Decoder::rotate(const RopeAngles& angles, std::vector<float>& x, std::int64_t rows, std::int64_t heads) {
  ops_.rope({x.data(), angles.cos.data(), angles.sin.data(), rows, heads, config_.head_dim, config_.rope_dim,
             config_.positions == PositionKind::rope_adjacent},
            pool_);
}

// What a branch ends with goes into the stream, or is normed first.
MatmulTarget Decoder::into_stream(const Linear& last) {
  float* out = config_.post_norms ? branch_.data() : stream_.data();
  return {&last.weight, last.bias_or_null(), out, !config_.post_norms};
}

void Decoder::add_normed_to_stream(const Norm& post_norm, std::int64_t rows) {
  if (!config_.post_norms) return;
  norm(post_norm, branch_.data(), branch_.data(), rows, config_.width);
  ops_.add(branch_.data(), stream_.data(), rows * config_.width, pool_);
}

std::int64_t Decoder::scratch_bytes() const {
  std::size_t floats = 0;
  for (const auto* values :
       {&stream_, &branch_, &q_, &q_sinks_, &k_, &v_, &context_, &log_sum_exp_, &gate_, &up_, &logits_, &hidden_}) {
    floats += values->capacity();
  }
  return static_cast<std::int64_t>(floats * sizeof(float));
}

}  // namespace quire
