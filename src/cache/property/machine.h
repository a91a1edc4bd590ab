// Runs commands against a cache and an oracle side by side and compares them after every one. A
// command is four small numbers that mean something in every state, so any list of them is
// valid and a failing one can be shortened freely.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "cache/kv_cache.h"
#include "cache/property/oracle.h"

namespace quire::property {

struct Command {
  std::uint8_t what = 0, a = 0, b = 0, c = 0;
};

struct Setup {
  std::string name;
  std::vector<KvGroupSpec> groups;
  std::vector<KvVisibility> policies = {{}};  // of the sequences
  // Roomy: nothing ever leaves the index, so that the length of every hit is known. Tight: sequences and
  // cached prefixes fight for memory.
  std::uint64_t tight_budget = 0;  // 0: roomy
  std::string eviction = "";
};

std::vector<Setup> all_setups();
CacheOptions options_of(const Setup& setup);
// Of pages by themselves, however the cache bundles them.
std::vector<KvGroupLayout> layouts_of(const Setup& setup);

class Machine {
 public:
  Machine(const Setup& setup, PageBytes& bytes);

  // Empty, or what is wrong. After the last command everything is released.
  std::string run(const std::vector<Command>& commands);
  std::uint64_t operations() const { return operations_; }

 private:
  struct Mismatch {
    std::string what;
  };
  static void expect(bool holds, const char* what) {
    if (!holds) throw Mismatch{what};
  }
  struct Live {
    SequenceId id;
    SequenceModel model;
  };

  void execute(const Command& command);
  void append(const Command& command, bool rejects);
  void append_pair(const Command& command);
  void prepare_in_vain(const Command& command);
  void open(const Command& command);
  void look_up(const Command& command);
  void fork(const Command& command);
  void rollback(const Command& command);
  void drop_front(const Command& command);
  void checkpoint(const Command& command);
  void evict(const Command& command);
  void release(const Command& command);
  void clear();

  Live& pick(std::uint8_t choice);
  Live& open_sequence(const Command& command, std::vector<TokenId>& prompt);
  void close(std::size_t place);
  bool extend(Live& live, std::span<const TokenId> tokens, std::int64_t accepted);
  std::vector<TokenId> next_tokens(const Live& live, std::int64_t count, std::uint8_t pattern) const;
  void write_rows(const Live& live, const History& drafted, std::span<const KvTable> tables);
  void copy_pages(const StepPlan& plan);
  // prepare(), which succeeds where could_prepare() says so. Where it does not, nothing may have changed.
  Result<StepPlan> prepare(std::span<const StepWant> wants);
  void refused(const Error& error);

  void check(Live& live);
  void check_group(const Live& live, std::int64_t group, const KvTable& table);
  void check_read(const Live& live);
  void check_stats();
  void check_pages();

  PageBytes& bytes_;
  bool roomy_;
  std::vector<KvVisibility> visible_;
  std::unique_ptr<KvCache> cache_;
  std::vector<KvGroupLayout> layouts_;
  std::unique_ptr<Oracle> oracle_;
  std::vector<Live> live_;
  Live* touched_ = nullptr;
  std::vector<History> remembered_;  // of sequences that are gone
  std::array<std::unique_ptr<RetentionPolicy>, 4> policies_;
  SequenceId next_id_ = 0;
  std::uint64_t operations_ = 0, asked_tokens_ = 0, hit_tokens_ = 0;
};

}  // namespace quire::property
