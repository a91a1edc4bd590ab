#include "grammar/automaton.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "core/check.h"

namespace quire {
namespace {

std::uint64_t packed(std::uint32_t high, std::uint32_t low) { return std::uint64_t{high} << 32 | low; }

std::uint64_t mixed(std::uint64_t hash, std::uint64_t value) {
  hash = (hash ^ value) * 0x9E3779B97F4A7C15u;
  return hash ^ (hash >> 29);
}

}  // namespace

Automaton::Automaton(std::shared_ptr<const Grammar> grammar)
    : grammar_(std::move(grammar)), class_count_(grammar_->class_count()), frames_{{0, kNoStack, 0, 0}} {
  std::vector<Thread> none;
  const State dead = intern(none, false, std::numeric_limits<std::uint64_t>::max());
  QUIRE_ASSERT(dead == kDead, "the first state is not the dead one");
  seed({grammar_->start(), kNoStack});
  start_ = close();
}

Automaton::State Automaton::compute_step(State from, std::uint8_t byte) {
  for (const Thread thread : threads(from)) {
    for (const Grammar::Edge& edge : grammar_->edges(thread.node)) {
      if (edge.kind != Grammar::Edge::Kind::bytes || byte < edge.first || byte > edge.last) continue;
      seed({edge.target, thread.stack});
    }
  }
  const State to = close();
  steps_[from * class_count_ + grammar_->class_of(byte)] = to;
  return to;
}

Automaton::Stack Automaton::push(Node resume, Stack below) {
  const auto [known, is_new] = stack_by_frame_.try_emplace(packed(resume, below), static_cast<Stack>(frames_.size()));
  if (is_new) {
    frames_.push_back({resume, below, frames_[below].depth + 1, frames_[below].way_out + grammar_->way_out(resume)});
  }
  return known->second;
}

void Automaton::seed(Thread thread) {
  const std::uint32_t way_out = grammar_->way_out(thread.node);
  if (way_out == Grammar::kNoWayOut || !seen_.insert(packed(thread.node, thread.stack)).second) return;
  open_.push_back({way_out + frames_[thread.stack].way_out, seen_.size(), thread});
  std::push_heap(open_.begin(), open_.end());
}

Automaton::State Automaton::close() {
  bool complete = false;
  // The first thread found has the shortest way out of all: along the way there it never grows.
  std::uint64_t shortest = std::numeric_limits<std::uint64_t>::max();
  for (std::size_t visits = 0; !open_.empty() && found_.size() < kMostThreads; ++visits) {
    const bool found_any = complete || !found_.empty();
    if (found_any && visits > kMostVisits) break;
    std::pop_heap(open_.begin(), open_.end());
    const auto [way_out, order, thread] = open_.back();
    open_.pop_back();
    if (grammar_->ends_rule(thread.node)) {
      if (thread.stack == kNoStack) {
        complete = true;
        shortest = 0;
      } else {
        seed({frames_[thread.stack].resume, frames_[thread.stack].below});
      }
      continue;
    }
    bool reads = false;
    for (const Grammar::Edge& edge : grammar_->edges(thread.node)) {
      switch (edge.kind) {
        case Grammar::Edge::Kind::bytes:
          reads = true;
          break;
        case Grammar::Edge::Kind::jump:
          seed({edge.target, thread.stack});
          break;
        case Grammar::Edge::Kind::call:
          // A call at the very end of a rule returns to where the rule does.
          if (grammar_->ends_rule(edge.target)) {
            seed({edge.callee, thread.stack});
          } else if (grammar_->way_out(edge.target) != Grammar::kNoWayOut) {
            seed({edge.callee, push(edge.target, thread.stack)});
          }
          break;
      }
    }
    if (reads) {
      shortest = std::min(shortest, way_out);
      found_.push_back(thread);
    }
  }
  open_.clear();
  seen_.clear();
  const State state = complete || !found_.empty() ? intern(found_, complete, shortest) : kDead;
  found_.clear();
  return state;
}

Automaton::State Automaton::intern(std::vector<Thread>& threads, bool complete, std::uint64_t shortest) {
  std::sort(threads.begin(), threads.end(),
            [](Thread a, Thread b) { return packed(a.node, a.stack) < packed(b.node, b.stack); });
  std::uint64_t hash = mixed(complete ? 1 : 0, shortest);
  for (const Thread thread : threads) hash = mixed(hash, packed(thread.node, thread.stack));
  const auto [first, last] = state_by_hash_.equal_range(hash);
  for (auto known = first; known != last; ++known) {
    const std::span<const Thread> others = this->threads(known->second);
    if (states_[known->second].complete == complete &&
        std::equal(others.begin(), others.end(), threads.begin(), threads.end())) {
      return known->second;
    }
  }
  const auto state = static_cast<State>(states_.size());
  states_.push_back(
      {static_cast<std::uint32_t>(threads_.size()), static_cast<std::uint32_t>(threads.size()), shortest, complete});
  threads_.insert(threads_.end(), threads.begin(), threads.end());
  steps_.resize(steps_.size() + class_count_, state == kDead ? kDead : kUnknown);
  state_by_hash_.emplace(hash, state);
  return state;
}

std::uint8_t Automaton::closing_byte(State state) const {
  std::uint8_t least = 0xFF;
  for (const Thread thread : threads(state)) {
    for (const Grammar::Edge& edge : grammar_->edges(thread.node)) {
      if (edge.kind != Grammar::Edge::Kind::bytes || grammar_->way_out(edge.target) == Grammar::kNoWayOut) continue;
      const std::uint64_t length = 1 + grammar_->way_out(edge.target) + frames_[thread.stack].way_out;
      if (length == shortest(state)) least = std::min(least, edge.first);
    }
  }
  return least;
}

Automaton::Stack Automaton::shared_stack(std::span<const Thread> threads) const {
  Stack shared = threads.empty() ? kNoStack : threads.front().stack;
  for (const Thread thread : threads) {
    Stack other = thread.stack;
    while (shared != other) {
      Stack& deeper = frames_[shared].depth >= frames_[other].depth ? shared : other;
      deeper = frames_[deeper].below;
    }
  }
  return shared;
}

Automaton::Stack Automaton::rebase(Stack stack, Stack base) {
  std::vector<Node> resumes;
  for (; stack != base; stack = frames_[stack].below) resumes.push_back(frames_[stack].resume);
  Stack rebased = kNoStack;
  for (std::size_t i = resumes.size(); i-- > 0;) rebased = push(resumes[i], rebased);
  return rebased;
}

Automaton::Split Automaton::split(State state) {
  if (states_[state].split.inside != kUnknown) return states_[state].split;
  const Stack base = complete(state) ? kNoStack : shared_stack(threads(state));
  Split split{state, kDead};
  if (base != kNoStack) {
    std::vector<Thread> inside(threads(state).begin(), threads(state).end());
    for (Thread& thread : inside) thread.stack = rebase(thread.stack, base);
    split.inside = intern(inside, false, shortest(state) - frames_[base].way_out);
    seed({frames_[base].resume, frames_[base].below});
    split.outside = close();
  }
  states_[state].split = split;
  return split;
}

std::size_t Automaton::bytes() const {
  return states_.size() * (sizeof(StateData) + 64) + threads_.size() * sizeof(Thread) + steps_.size() * sizeof(State) +
         frames_.size() * (sizeof(Frame) + 64);
}

}  // namespace quire
