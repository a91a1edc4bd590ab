// A Grammar made deterministic as it is used. A state is everything that may be going on after the
// same bytes: a set of (node, stack of places to return to). States and stacks are interned, so
// equal states have equal numbers and a step is taken twice at the price of one look-up.
//
// An ambiguous grammar may have any number of stacks. Past kMostThreads those with the longest
// way to the end are dropped: what is left is still valid and can still be closed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "grammar/grammar.h"

namespace quire {

class Automaton {
 public:
  using State = std::uint32_t;
  static constexpr State kDead = 0;

  explicit Automaton(std::shared_ptr<const Grammar> grammar);

  State start() const { return start_; }

  State step(State from, std::uint8_t byte) {
    const State known = steps_[from * class_count_ + grammar_->class_of(byte)];
    return known != kUnknown ? known : compute_step(from, byte);
  }

  bool complete(State state) const { return states_[state].complete; }
  bool finished(State state) const { return complete(state) && threads(state).empty(); }
  // Bytes of the shortest text that completes this one.
  std::uint64_t shortest(State state) const { return states_[state].shortest; }

  // The first byte of that text; of several, of the first in byte order. A function of the state, so
  // the text after one byte is the rest of the text before it. Not for complete states.
  std::uint8_t closing_byte(State state) const;

  // What all threads of a state return to is its context: `inside` is the state without it, which is
  // complete where the context goes on; `outside` is the context alone. Without a shared context
  // `inside` is the state itself and `outside` is dead.
  struct Split {
    State inside, outside;
  };
  Split split(State state);

  std::size_t state_count() const { return states_.size(); }
  std::size_t bytes() const;

 private:
  static constexpr State kUnknown = 0xFFFFFFFF;
  static constexpr std::size_t kMostThreads = 256;
  static constexpr std::size_t kMostVisits = 4096;  // of one step, once something is found

  using Node = Grammar::Node;
  using Stack = std::uint32_t;
  static constexpr Stack kNoStack = 0;

  struct Frame {
    Node resume;
    Stack below;
    std::uint32_t depth;
    std::uint64_t way_out;  // fewest bytes until all of the stack is done
  };
  struct Thread {
    Node node;
    Stack stack;
    bool operator==(const Thread&) const = default;
  };
  struct StateData {
    std::uint32_t first, count;  // in threads_
    std::uint64_t shortest;
    bool complete;
    Split split{kUnknown, kUnknown};
  };
  struct Visit {
    std::uint64_t way_out;
    std::uint64_t order;
    Thread thread;
    bool operator<(const Visit& other) const {  // the heap's top: the shortest way out, then the latest
      return way_out != other.way_out ? way_out > other.way_out : order < other.order;
    }
  };

  std::span<const Thread> threads(State state) const {
    return std::span(threads_).subspan(states_[state].first, states_[state].count);
  }
  State compute_step(State from, std::uint8_t byte);
  Stack push(Node resume, Stack below);
  Stack shared_stack(std::span<const Thread> threads) const;
  Stack rebase(Stack stack, Stack base);

  void seed(Thread thread);
  State close();  // of the seeded threads: follows jumps, calls and returns until bytes must be read
  State intern(std::vector<Thread>& threads, bool complete, std::uint64_t shortest);

  std::shared_ptr<const Grammar> grammar_;
  std::size_t class_count_;
  State start_ = kDead;
  std::vector<StateData> states_;
  std::vector<Thread> threads_;
  std::vector<State> steps_;  // [states][classes]
  std::vector<Frame> frames_;
  std::unordered_multimap<std::uint64_t, State> state_by_hash_;
  std::unordered_map<std::uint64_t, Stack> stack_by_frame_;

  // Used by one step, kept for their memory.
  std::vector<Visit> open_;
  std::unordered_set<std::uint64_t> seen_;
  std::vector<Thread> found_;
};

}  // namespace quire
